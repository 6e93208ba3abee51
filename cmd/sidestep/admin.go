package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"sidestep/internal/admin/client"
)

const (
	// adminVariable names the environment variable in place of --admin.
	adminVariable = "SIDESTEP_ADMIN"
	adminDefault  = "http://127.0.0.1:9211"

	// adminTimeout is that of questions which sidestep answers by itself.
	adminTimeout = 5 * time.Second

	adminUsage = `  --admin URL           the admin listener (http://127.0.0.1:9211, or SIDESTEP_ADMIN)
  --ca-file FILE        authorities to trust in place of the system's, for https
  --cert-file FILE      our certificate, where the listener demands one (admin.tls)
  --key-file FILE       its key
  --timeout DURATION    for each question (%s)
  --output FORMAT       table or json (table)
  --help                print this

Exit codes: 0 fine, 1 %s, 2 bad flags.
`
)

// adminCommand is a sub-command that asks the admin listener of a running sidestep.
type adminCommand struct {
	name string
	// usage is formatted with timeout, of a question, and failure, what exit code 1 means.
	usage, failure string
	timeout        time.Duration
	least, most    int // positional arguments
	// argument says what is missing where there are too few.
	argument string
	// flags adds the command's own; it may be nil.
	flags func(*flag.FlagSet)
	run   func(ctx context.Context, r adminRun) (code int, err error)
}

// adminRun is one call of an adminCommand.
type adminRun struct {
	admin  *client.Client
	args   []string
	format client.Format
	stdout *printed
}

// printed remembers the first error of writing, as what prints looks at none.
type printed struct {
	io.Writer
	err error
}

// Write implements io.Writer.
func (p *printed) Write(text []byte) (int, error) {
	n, err := p.Writer.Write(text)
	p.err = cmp.Or(p.err, err)
	return n, err
}

// execute parses the arguments and runs the command.
func (c adminCommand) execute(args []string, stdout, stderr io.Writer) int {
	set := flag.NewFlagSet("sidestep "+c.name, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	o := client.Options{Address: adminDefault}
	if v := os.Getenv(adminVariable); v != "" {
		o.Address = v
	}
	format := client.Table
	set.StringVar(&o.Address, "admin", o.Address, "")
	set.StringVar(&o.CAFile, "ca-file", "", "")
	set.StringVar(&o.CertFile, "cert-file", "", "")
	set.StringVar(&o.KeyFile, "key-file", "", "")
	set.DurationVar(&o.Timeout, "timeout", c.timeout, "")
	set.Var(&format, "output", "")
	if c.flags != nil {
		c.flags(set)
	}
	positional, err := parseMixed(set, args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(stdout, c.usage, c.timeout, c.failure)
		return exitOK
	case err == nil && len(positional) > c.most:
		err = fmt.Errorf("unexpected argument %q", positional[c.most])
	case err == nil && len(positional) < c.least:
		err = errors.New(c.argument)
	case err == nil && o.Timeout <= 0:
		err = errors.New("--timeout must be more than 0")
	}
	if err == nil {
		var admin *client.Client
		if admin, err = client.New(o); err == nil {
			defer admin.Close()
			return c.call(adminRun{admin, positional, format, &printed{Writer: stdout}}, stderr)
		}
	}
	return c.misused(err, stderr)
}

func (c adminCommand) misused(err error, stderr io.Writer) int {
	fmt.Fprintf(stderr, "sidestep %s: %v\nsidestep %s --help lists the flags.\n", c.name, client.Printable(err.Error()), c.name)
	return exitUsage
}

func (c adminCommand) call(r adminRun, stderr io.Writer) int {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	code, err := c.run(ctx, r)
	if err == nil {
		err = r.stdout.err
	}
	switch {
	case err == nil:
		return code
	case code == exitUsage:
		return c.misused(err, stderr)
	}
	fmt.Fprintf(stderr, "sidestep %s: %v\n", c.name, client.Printable(err.Error())) // it may hold what was answered
	return exitFailure
}

// parseMixed parses flags before, between and after arguments; behind -- there are
// none.
func parseMixed(set *flag.FlagSet, args []string) (positional []string, err error) {
	for {
		before := len(args)
		if err := set.Parse(args); err != nil {
			return nil, err
		}
		rest := set.Args()
		if ended := before > len(rest) && args[before-len(rest)-1] == "--"; ended || len(rest) == 0 {
			return append(positional, rest...), nil
		}
		positional = append(positional, rest[0])
		args = rest[1:]
	}
}

package leg

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
)

// streaming is a message with a stream; length < 0: in chunks.
func streaming(body io.Reader, length int64, trailer string) *Message {
	framing := fmt.Sprintf("Content-Length: %d", length)
	if length < 0 {
		framing = "Transfer-Encoding: chunked"
	}
	return &Message{
		Method: http.MethodPost, Head: []byte("POST /path HTTP/1.1\r\nHost: node\r\n" + framing + "\r\n\r\n"),
		Stream: &Stream{Reader: body, Length: length, Trailer: func() []byte { return []byte(trailer) }},
	}
}

// A stream arrives as it is read, and its connection is kept.
func TestStreams(t *testing.T) {
	for _, size := range []int{0, 1, partSize - 1, partSize, partSize + 1, 3*partSize + 17} {
		for _, sized := range []bool{true, false} {
			for name, read := range map[string]func(io.Reader) io.Reader{
				"as it is":  func(r io.Reader) io.Reader { return r },
				"by halves": iotest.HalfReader, "with the end": iotest.DataErrReader,
			} {
				t.Run(fmt.Sprint(size, sized, name), func(t *testing.T) {
					eachKind(t, func(t *testing.T, secure *tls.Config) {
						body := strings.Repeat("0123456789abcdefg", size/17+1)[:size]
						got := make(chan *http.Request, 2)
						texts := make(chan string, 2)
						n := start(t, secure, func(p *peer) {
							for {
								r, err := http.ReadRequest(p.r)
								if err != nil {
									return
								}
								b, err := io.ReadAll(r.Body)
								if err != nil {
									return
								}
								got <- r
								texts <- string(b)
								p.say(hello)
							}
						})
						p := n.pool(nil)
						p.writerPatience = patience // the answer may come before an empty body was written
						for range 2 {
							length := int64(-1)
							if sized {
								length = int64(size)
							}
							_, answer := ask(t, p, streaming(read(strings.NewReader(body)), length, "A: b\r\n"))
							require.Equal(t, "hello", answer)
							r := <-got
							require.Equal(t, body, <-texts)
							if !sized {
								require.Equal(t, http.Header{"A": {"b"}}, r.Trailer)
							}
							require.Equal(t, 1, p.kept())
						}
						require.EqualValues(t, 1, n.accepted.Load())
					})
				})
			}
		}
	}
}

// A body that ends early is never whole for the node.
func TestAStreamThatBreaksOff(t *testing.T) {
	broken := iotest.ErrReader(errors.New("the client has left"))
	for name, m := range map[string]func() *Message{
		"in chunks": func() *Message { return streaming(io.MultiReader(strings.NewReader("abc"), broken), -1, "") },
		"sized":     func() *Message { return streaming(io.MultiReader(strings.NewReader("abc"), broken), 5, "") },
		"short":     func() *Message { return streaming(strings.NewReader("abc"), 5, "") },
		"long":      func() *Message { return streaming(strings.NewReader("abcdef"), 5, "") },
	} {
		t.Run(name, func(t *testing.T) {
			eachKind(t, func(t *testing.T, secure *tls.Config) {
				whole := make(chan bool, 1)
				n := start(t, secure, func(p *peer) {
					_, ok := p.request()
					whole <- ok
				})
				p := n.pool(nil)
				_, err := p.Do(m())
				require.Error(t, err)
				require.False(t, NotSent(err))
				require.False(t, <-whole)
				require.Zero(t, p.kept())
			})
		})
	}
}

// A stream is not read before there is a connection that can be used.
func TestAStreamIsNotReadForNothing(t *testing.T) {
	for _, size := range []int{3, 3 * partSize} {
		idle := make(chan bool)
		got := make(chan string, 2)
		n := start(t, nil, func(p *peer) {
			one, _ := p.request()
			got <- one
			p.say(hello)
			if p.number == 1 {
				<-idle
				p.Close()
				return
			}
			p.gone()
		})
		p := n.pool(nil)
		ask(t, p, get())
		close(idle)
		arrived(t, p)
		body := strings.Repeat("x", size)
		m := streaming(strings.NewReader(body), int64(size), "")
		down := New(Options{Dial: func(context.Context, string, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED }})
		t.Cleanup(down.Close)
		_, err := down.Do(m)
		require.True(t, NotSent(err))
		_, answer := ask(t, p, m)
		require.Equal(t, "hello", answer)
		require.EqualValues(t, 2, n.requests.Load())
		require.Empty(t, <-got)
		require.Equal(t, body, <-got)
		n.stop()
	}
}

// A node may answer before it has read the stream. What still waits to be read keeps nobody.
func TestAnEarlyAnswerToAStream(t *testing.T) {
	eachKind(t, func(t *testing.T, secure *tls.Config) {
		n := start(t, secure, func(p *peer) {
			_, _ = http.ReadRequest(p.r)
			p.say(hello)
			p.gone()
		})
		p := n.pool(nil)
		r, w := io.Pipe()
		_, body := ask(t, p, streaming(r, -1, ""))
		require.Equal(t, "hello", body)
		require.Zero(t, p.kept())
		n.closed()
		require.NoError(t, w.CloseWithError(io.ErrClosedPipe)) // its reader ends
	})
}

// A node that refuses a body without having asked for it takes the body for messages, if it comes all the same.
func TestABodyThatIsRefusedUnasked(t *testing.T) {
	for status, kept := range map[string]bool{"201 Created": true, "413 Request Entity Too Large": false} {
		n := start(t, nil, func(p *peer) {
			_, _ = p.request()
			p.say("HTTP/1.1 " + status + "\r\nContent-Length: 0\r\n\r\n")
			p.gone()
		})
		p := n.pool(nil)
		m := streaming(strings.NewReader("abc"), 3, "")
		m.Stream.Asked = true
		ask(t, p, m)
		require.Equal(t, kept, p.kept() == 1, status)
	}
}

// A stream is read once the node has asked for it, or says nothing for a while, and not if it answers.
func TestAStreamThatIsAskedFor(t *testing.T) {
	const never = time.Hour
	for name, c := range map[string]struct {
		timeout time.Duration
		greet   string
		read    bool
	}{
		"asked":           {never, "HTTP/1.1 100 Continue\r\n\r\n", true},
		"another interim": {never, "HTTP/1.1 103 Early Hints\r\n\r\n", true},
		"nothing":         {0, "", true},
		"answered":        {never, hello, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := start(t, nil, func(p *peer) {
				if c.greet != "" {
					p.say(c.greet)
				}
				if _, ok := p.request(); ok && c.read {
					p.say(hello)
				}
				p.gone()
			})
			p := n.pool(func(o *Options) { o.ContinueTimeout = c.timeout })
			source := strings.NewReader("abc")
			m := streaming(source, 3, "")
			m.Stream.Asked = true
			_, body := ask(t, p, m)
			require.Equal(t, "hello", body)
			require.Equal(t, c.read, source.Len() == 0)
			require.Equal(t, c.read, p.kept() == 1)
		})
	}
}

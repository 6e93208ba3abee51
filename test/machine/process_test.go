package machine

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseProcess(t *testing.T) {
	const tail = " S 7 1 1 0 -1 4194304 100 0 0 0 150 50 9 9 20 0 4 0 12345 1000000 300 18446744073709551615 1 1"
	for name, text := range map[string]string{
		"plain":             "42 (nginx)" + tail,
		"blank in the name": "42 (nginx: worker process)" + tail,
		"parentheses":       "42 (a) b (c))" + tail,
	} {
		t.Run(name, func(t *testing.T) {
			p, err := parseProcess(text)
			require.NoError(t, err)
			require.Equal(t, Process{
				PID: 42, Parent: 7, Group: 1, CPU: 2 * time.Second, Waited: 180 * time.Millisecond, Resident: 300 * int64(os.Getpagesize()),
			}, p)
		})
	}
	for _, text := range []string{"", "42", "42 (x", "42 (x) S 1", "42 (x)" + strings.Replace(tail, "150", "x", 1)} {
		_, err := parseProcess(text)
		require.Error(t, err, text)
	}
}

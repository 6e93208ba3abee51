package bulk

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func TestSearches(t *testing.T) {
	long := strings.Repeat("x", 3*maxAction)
	for body, want := range map[string]string{
		"h\ns\n\ns\nh\n" + long + "\nh\ns":   "<h>\ns\n<>\ns\n<h>\n" + long + "\n<h>\ns",
		"h\ns\nh":                            "<h>\ns\nh",
		"\nh\ns\n":                           "\nh\ns\n",
		"":                                   "",
		"h\ns\n" + long + "\ns\nh\ns\n":      "<h>\ns\n" + long + "\ns\nh\ns\n",
		"{\"index\":\"a\"}\r\n{}\r\nh\n{}\n": "<{\"index\":\"a\"}\r>\n{}\r\n<h>\n{}\n",
	} {
		header := func(line []byte) []byte { return []byte("<" + string(line) + ">") }
		require.NoError(t, iotest.TestReader(NewSearches(strings.NewReader(body), header), []byte(want)))
		got, err := io.ReadAll(NewSearches(iotest.OneByteReader(strings.NewReader(body)), header))
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
	_, err := io.ReadAll(NewSearches(io.MultiReader(bytes.NewReader([]byte("h\n")), iotest.ErrReader(io.ErrUnexpectedEOF)), bytes.Clone))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

package cluster

import (
	"context"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWritesQueueOfOnePoll(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		stats NodeStats
		want  bool
	}{
		{"nothing waits", NodeStats{State: PollOK}, false},
		{"the first poll, or a moment's queue", NodeStats{State: PollOK, WriteQueue: 50}, false},
		{"the queue has been worked off", NodeStats{State: PollOK, WriteQueueBefore: 50}, false},
		{"two polls in a row", NodeStats{State: PollOK, WriteQueue: 1, WriteQueueBefore: 2}, true},
		{"rejections, the queue being empty again", NodeStats{State: PollOK, WriteRejected: 1}, true},
		{"a failed poll", NodeStats{State: PollUnresponsive, WriteRejected: 1}, false},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, tt.stats.WritesQueue(), tt.name)
	}
}

func TestOwnLack(t *testing.T) {
	socket := &net.OpError{Op: "dial", Net: "udp", Err: os.NewSyscallError("socket", syscall.EMFILE)}
	resolver := net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, socket }}
	_, lookUp := resolver.LookupHost(t.Context(), "node.invalid.")
	for err, want := range map[error]bool{
		socket: true,
		&net.OpError{Op: "dial", Net: "tcp", Err: lookUp}:                                        true,
		&net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("x", syscall.ECONNREFUSED)}: false,
		&net.DNSError{Err: "no such host", Name: "node", IsNotFound: true}:                       false,
	} {
		require.Equal(t, want, OwnLack(err), err)
	}
}

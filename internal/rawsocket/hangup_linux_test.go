package rawsocket_test

import (
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/rawsocket"
)

func TestHangups(t *testing.T) {
	h, err := rawsocket.NewHangups()
	require.NoError(t, err)
	t.Cleanup(func() { _ = h.Close() })
	for name, end := range ends() {
		t.Run(name, func(t *testing.T) {
			ours, theirs := pair(t)
			told := make(chan struct{}, 8)
			require.True(t, h.Watch(ours, func() { told <- struct{}{} }))
			_, err := theirs.Write([]byte("a"))
			require.NoError(t, err)
			require.Eventually(t, func() bool { return ours.Readable() }, time.Minute, time.Millisecond)
			require.Empty(t, told, "data is no end")
			require.NoError(t, end(theirs))
			<-told
		})
	}
}

func TestHangupsOfManyConnections(t *testing.T) {
	h, err := rawsocket.NewHangups()
	require.NoError(t, err)
	var told atomic.Int64
	var open []*net.TCPConn
	for range 200 { // more than are told of at once
		ours, theirs := pair(t)
		require.True(t, h.Watch(ours, func() { told.Add(1) }))
		open = append(open, theirs)
	}
	for _, theirs := range open {
		require.NoError(t, theirs.Close())
	}
	require.Eventually(t, func() bool { return told.Load() >= 200 }, time.Minute, time.Millisecond)
	require.NoError(t, h.Close())
}

func TestHangupsForget(t *testing.T) {
	h, err := rawsocket.NewHangups()
	require.NoError(t, err)
	ours, theirs := pair(t)
	require.True(t, h.Watch(ours, func() { t.Error("forgotten, and told of") }))
	h.Forget(ours)
	require.NoError(t, theirs.CloseWrite())
	require.Eventually(t, ours.Ended, time.Minute, time.Millisecond)
	another, end := pair(t)
	told := make(chan struct{}, 1)
	require.True(t, h.Watch(another, func() { told <- struct{}{} }))
	require.NoError(t, end.Close())
	<-told // and so what came before was seen, too
	require.NoError(t, h.Close())
	require.False(t, h.Watch(another, func() {}), "it is closed")
	require.False(t, (*rawsocket.Hangups)(nil).Watch(another, func() {}))
	require.NoError(t, (*rawsocket.Hangups)(nil).Close())
}

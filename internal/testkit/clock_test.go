package testkit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSetBack(t *testing.T) {
	now := time.Now()
	back := SetBack(now, time.Hour)
	require.Zero(t, back.Sub(now))
	require.EqualValues(t, 3600, now.Unix()-back.Unix())
}

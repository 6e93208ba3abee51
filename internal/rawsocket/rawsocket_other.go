//go:build !unix

// Package rawsocket reads and writes TCP connections.
package rawsocket

import "net"

// Conn is a TCP connection.
type Conn struct{ *net.TCPConn }

// Of returns c.
func Of(c *net.TCPConn) *Conn { return &Conn{TCPConn: c} }

// Ended is not known here.
func (c *Conn) Ended() bool { return false }

// Readable is not known here without reading.
func (c *Conn) Readable() bool { return false }

// Send writes p.
func (c *Conn) Send(p []byte, _ bool) (wrote int, err error) { return c.Write(p) }

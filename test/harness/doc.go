// Package harness runs what tests, demonstrations and measurements need on this machine.
//
// A Cluster is a real Elasticsearch or OpenSearch: its distribution is fetched with Maven,
// every node is a process of its own on loopback, and each can be put behind toxiproxy so
// that its connections can be slowed, swallowed or refused one by one. A Front is the built
// sidestep binary, run as an operator would: a process with flags, two addresses and a log.
// A Stage is a cluster with its indices and the sidesteps before it. Main and Run are what
// the commands in this module have in common.
package harness

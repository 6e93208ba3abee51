package selection

// What the tests of what shows nodes and decisions need of this package's own.
var (
	NewTest, SetTimes, Ring, Epoch = newTest, setTimes, ring, epoch
	At, Late, SuspectNodes         = at, late, suspect
)

func (s *Selector) Eject(n *Node, as State, at int64, why string) { s.eject(n, as, at, why) }
func (s *Selector) Fail(n *Node, at int64)                        { s.fail(n, at, "a test") }
func (s *Selector) SlowStart(n *Node, at int64)                   { s.slowStart(n, at) }
func (s *Selector) SetZone(zone string, factor float64)           { s.o.Zone, s.o.ZoneFactor = zone, factor }

func (n *Node) SetResponse(v float64) { set(&n.response, v) }
func (n *Node) SetService(v float64)  { set(&n.service, v) }
func (n *Node) SetQueue(v float64)    { set(&n.queue, v) }
func (n *Node) SetRate(v float64)     { set(&n.rate, v) }

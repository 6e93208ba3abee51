package config

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Admission says which searches wait in sidestep while the cluster is busy.
type Admission struct {
	// Mode is "off", "observe" (what would wait is only counted), "auto" (limits follow
	// the nodes' queues) or "target" (limits follow TargetResponseTime).
	Mode               string        `yaml:"mode"`
	TargetResponseTime time.Duration `yaml:"target_response_time"`
	// Min and Max bound the limit of each node, in shard queries; 0: at least as many as
	// it has search threads, and no upper bound. Both are cut to what its threads
	// and half of its queue take, with "auto" beside what is in flight and in no pool.
	Min     int              `yaml:"min"`
	Max     int              `yaml:"max"`
	Queue   AdmissionQueue   `yaml:"queue"`
	Classes []AdmissionClass `yaml:"classes"`
	Writes  AdmissionWrites  `yaml:"writes"`
}

// AdmissionWrites says which writes wait in sidestep while the write pools of the nodes are
// busy. Mode is "off", "observe" or "auto"; Min and Max bound the limit of a node, in tasks.
type AdmissionWrites struct {
	Mode  string              `yaml:"mode"`
	Min   int                 `yaml:"min"`
	Max   int                 `yaml:"max"`
	Queue AdmissionWriteQueue `yaml:"queue"`
}

// AdmissionWriteQueue bounds the writes that wait. 0: only by the size of the engine's own
// queues.
type AdmissionWriteQueue struct {
	Length int           `yaml:"length"` // requests
	Time   time.Duration `yaml:"time"`
}

// AdmissionQueue bounds the searches that wait. 0: only by the size of the engine's own
// queues.
type AdmissionQueue struct {
	Length int           `yaml:"length"` // searches
	Bytes  Size          `yaml:"bytes"`  // of request bodies
	Time   time.Duration `yaml:"time"`
}

// AdmissionClass is a kind of searches.
type AdmissionClass struct {
	Name  string         `yaml:"name"`
	Match AdmissionMatch `yaml:"match"`
	// Weight is its share of the work while other classes have searches waiting; 0: 1.
	Weight float64 `yaml:"weight"`
	// Rate is how many of its searches are sent in a second at most; 0: any number.
	Rate float64 `yaml:"rate"`
	// Deadline is how long one of them may wait; 0: as long as its client does.
	Deadline time.Duration `yaml:"deadline"`
	// Downgrade names the class of searches that exceed Rate, or have waited for Deadline;
	// empty: the former wait, the latter are refused.
	Downgrade string `yaml:"downgrade"`
}

// AdmissionMatch says which searches are in a class. All conditions that are set must
// hold.
type AdmissionMatch struct {
	Operation      string `yaml:"operation"`
	Index          string `yaml:"index"`
	User           string `yaml:"user"`
	OpaqueIDPrefix string `yaml:"opaque_id_prefix"`
}

// defaultClass is the class of searches that are in no other, writesClass that of writes.
const (
	defaultClass = "default"
	writesClass  = "writes"
)

// classOperations are the operations that a class may name, retiredOperations those that it may for one more release.
func classOperations() []string {
	return []string{"search", "search_template", "count", "async_search", "msearch", "msearch_template", "scroll"}
}

func retiredOperations() []string { return []string{"get", "explain", "termvectors", "mget"} }

// RetiredClasses returns the names of the classes of reads by id. Such a class is accepted for one more release: there is
// nothing in it, as reads by id are no load of the search threads.
func (a Admission) RetiredClasses() (names []string) {
	for _, k := range a.Classes {
		if slices.Contains(retiredOperations(), k.Match.Operation) {
			names = append(names, k.Name)
		}
	}
	return names
}

func (c *checker) admission(a Admission) {
	c.oneOf("admission.mode", a.Mode)
	c.oneOf("admission.writes.mode", a.Writes.Mode)
	c.limitOf("admission", a.Min, a.Max)
	c.limitOf("admission.writes", a.Writes.Min, a.Writes.Max)
	c.atLeast("admission.writes.queue.length", a.Writes.Queue.Length, 0)
	c.notNegative("admission.writes.queue.time", a.Writes.Queue.Time)
	c.notNegative("admission.target_response_time", a.TargetResponseTime)
	if a.Mode == "target" && a.TargetResponseTime == 0 {
		c.add("admission.target_response_time", "must be set for mode target")
	}
	c.atLeast("admission.queue.length", a.Queue.Length, 0)
	c.notNegative("admission.queue.time", a.Queue.Time)
	for i, k := range a.Classes {
		c.admissionClass(fmt.Sprintf("admission.classes[%d]", i), k)
		if first := slices.IndexFunc(a.Classes, func(other AdmissionClass) bool { return other.Name == k.Name }); first < i {
			c.add(fmt.Sprintf("admission.classes[%d]", i), "has the name of admission.classes[%d]", first)
		}
		c.downgrade(fmt.Sprintf("admission.classes[%d].downgrade", i), k, a.Classes)
	}
}

// limitOf checks the bounds of the limit of a node.
func (c *checker) limitOf(path string, least, most int) {
	c.atLeast(path+".min", least, 0)
	c.atLeast(path+".max", most, 0)
	if most > 0 && most < least {
		c.add(path+".max", "must be at least min (%d)", least)
	}
}

// downgrade checks the lower class of a class: there is one of the name, and whoever
// follows the names comes to an end.
func (c *checker) downgrade(path string, k AdmissionClass, all []AdmissionClass) {
	if k.Downgrade == "" {
		return
	}
	if k.Rate == 0 && k.Deadline == 0 {
		c.add(path, "needs a rate or a deadline: without them the class refuses nothing of its own")
	}
	for range all {
		at := slices.IndexFunc(all, func(other AdmissionClass) bool { return other.Name == k.Downgrade })
		switch {
		case k.Downgrade == "" || k.Downgrade == defaultClass && at < 0:
			return
		case at < 0:
			c.add(path, "names no class: %q", k.Downgrade)
			return
		}
		k = all[at]
	}
	c.add(path, "leads back to the class itself")
}

func (c *checker) admissionClass(path string, k AdmissionClass) {
	if k.Name == "" || len(k.Name) > 63 || strings.Trim(k.Name, "abcdefghijklmnopqrstuvwxyz0123456789_-") != "" {
		c.add(path, "needs a name of small letters, digits, _ and -, not %q", k.Name)
	}
	switch {
	case k.Name == writesClass:
		c.add(path, "has the name of the class of writes")
	case k.Name == defaultClass && k.Match != AdmissionMatch{}:
		c.add(path, "matches what no other class does, as its name is default: it takes no match")
	case k.Name != defaultClass && k.Match == AdmissionMatch{}:
		c.add(path, "needs a match, or the name default: it would take every search")
	}
	if k.Match.Operation != "" && !slices.Contains(slices.Concat(classOperations(), retiredOperations()), k.Match.Operation) {
		c.add(path+".match.operation", "%q is not one of %s", k.Match.Operation, strings.Join(classOperations(), ", "))
	}
	if k.Match.Index != "" {
		c.pattern(path+".match.index", k.Match.Index)
	}
	if k.Weight < 0 || math.IsInf(k.Weight, 0) || math.IsNaN(k.Weight) {
		c.add(path+".weight", "must be more than 0, or 0 for 1, not %v", k.Weight)
	}
	if k.Rate < 0 || math.IsInf(k.Rate, 0) || math.IsNaN(k.Rate) {
		c.add(path+".rate", "must be more than 0, or 0 for any, not %v", k.Rate)
	}
	c.notNegative(path+".deadline", k.Deadline)
}

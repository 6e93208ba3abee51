package app

import (
	"sidestep/internal/admission"
	"sidestep/internal/config"
	"sidestep/internal/proxy"
)

// admissionOptions returns the data plane's options of admission. clients is the number
// of sidesteps that share the limits.
func admissionOptions(a config.Admission, clients int) proxy.Admission {
	o := proxy.Admission{Options: admission.Options{
		Mode: admission.Mode(a.Mode), TargetResponseTime: a.TargetResponseTime,
		Min: float64(a.Min), Max: float64(a.Max), Sidesteps: clients,
		Queue: admission.QueueOptions{Length: a.Queue.Length, Bytes: int64(a.Queue.Bytes), Time: a.Queue.Time},
	}}
	o.Writes = admission.Options{
		Mode: admission.Mode(a.Writes.Mode), Min: float64(a.Writes.Min), Max: float64(a.Writes.Max), Sidesteps: clients,
		Queue: admission.QueueOptions{Length: a.Writes.Queue.Length, Time: a.Writes.Queue.Time},
	}
	for _, k := range a.Classes {
		o.Classes = append(o.Classes, proxy.AdmissionClass{
			Class:     admission.Class{Name: k.Name, Weight: k.Weight, Rate: k.Rate, Deadline: k.Deadline, Downgrade: k.Downgrade},
			Operation: k.Match.Operation, Index: k.Match.Index, User: k.Match.User, OpaqueIDPrefix: k.Match.OpaqueIDPrefix,
		})
	}
	return o
}

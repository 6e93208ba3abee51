package app

import (
	"sidestep/internal/admission"
	"sidestep/internal/config"
	"sidestep/internal/proxy"
)

// admissionOptions returns what the data plane is told of admission. clients is how many
// sidesteps share the limits.
func admissionOptions(a config.Admission, clients int) proxy.Admission {
	o := proxy.Admission{Options: admission.Options{
		Mode: admission.Mode(a.Mode), TargetResponseTime: a.TargetResponseTime,
		Min: float64(a.Min), Max: float64(a.Max), Sidesteps: clients,
		Queue: admission.QueueOptions{Length: a.Queue.Length, Bytes: int64(a.Queue.Bytes), Time: a.Queue.Time},
	}}
	for _, k := range a.Classes {
		o.Classes = append(o.Classes, proxy.AdmissionClass{
			Class:     admission.Class{Name: k.Name, Weight: k.Weight, Rate: k.Rate, Deadline: k.Deadline},
			Operation: k.Match.Operation, Index: k.Match.Index, User: k.Match.User, OpaqueIDPrefix: k.Match.OpaqueIDPrefix,
		})
	}
	return o
}

// AdmissionMode returns the mode of admission in force.
func (a *App) AdmissionMode() admission.Mode { return a.current.Load().proxy.AdmissionMode() }

// SetAdmissionMode switches the mode of admission. It holds until it is switched again or
// a reload brings a configuration whose admission.mode is another than before.
func (a *App) SetAdmissionMode(mode admission.Mode) error {
	a.modeMu.Lock()
	defer a.modeMu.Unlock()
	return a.current.Load().proxy.SetAdmissionMode(mode)
}

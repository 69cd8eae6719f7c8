package reaper_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"hanbeon/pkg/job"
	"hanbeon/pkg/once"
	"hanbeon/pkg/reaper"
	"hanbeon/pkg/sim"
	"hanbeon/pkg/store"
)

// A slot whose job is over or gone is freed and said loudly; the slot of the next job, taken in between, is not.
func TestASlotThatDisagreesWithItsSingleJob(t *testing.T) {
	t.Parallel()
	slot := string(til) + ":" + today
	for name, lead := range map[string]func(d *desk) string{
		"over": func(d *desk) string {
			j := d.open()
			d.work(nil)
			return j.ID
		},
		"gone": func(*desk) string { return job.NewID(once.Kind(til), now()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			atDesk(t, func(t *testing.T, d *desk) {
				held := job.Slot{Slot: slot, Job: lead(d), At: now()}
				key := slotKey(t, d.world, held)
				restore := store.Put(key, held)
				if err := d.store.Transact(t.Context(), restore); err != nil {
					t.Fatal(err)
				}
				d.reap()
				if _, ok, err := d.jobs.Holder(t.Context(), slot); ok || err != nil {
					t.Errorf("held %v, %v", ok, err)
				}
				if !d.says("was a table restored", held.Job) {
					t.Error("the log does not tell")
				}
				// The same, and the next job takes the slot before the reaper writes.
				if err := d.store.Transact(t.Context(), restore); err != nil {
					t.Fatal(err)
				}
				var next job.Job
				err := d.reaper(func(c sim.Call) (bool, error) {
					if c.Op == sim.Transact && c.N == 1 {
						if _, err := d.jobs.FreeSlot(t.Context(), held); err != nil {
							t.Error(err)
						}
						next = d.open()
					}
					return true, nil
				}).Handle(t.Context())
				if err != nil {
					t.Error(err)
				}
				d.ends(next, job.Pending, "", 0)
			})
		})
	}
}

// JOB-12: what is broken about one job stops no other: a job that cannot be read, a message that is refused, a slot that is not the job's own.
func TestABrokenSingleJobStopsNoOther(t *testing.T) {
	t.Parallel()
	for name, lead := range map[string]func(d *desk, broken job.Job) sim.Hook{
		"not read": func(_ *desk, broken job.Job) sim.Hook {
			return func(c sim.Call) (bool, error) {
				if c.Op == sim.Get && c.Keys[0].SK == broken.ID {
					return false, sim.ErrNoAnswer
				}
				return true, nil
			}
		},
		"not to be decoded": func(d *desk, broken job.Job) sim.Hook {
			key := store.Key{Table: job.Table, PK: "JOBS#til#" + broken.CreatedAt.Format("2006-01"), SK: broken.ID}
			if err := d.store.Transact(d.t.Context(), store.Update(key, store.Attrs{"attempt": "one"}, nil)); err != nil {
				d.t.Fatal(err)
			}
			return nil
		},
		"not sent": func(_ *desk, broken job.Job) sim.Hook {
			return func(c sim.Call) (bool, error) {
				if c.Op == sim.Send && strings.Contains(c.Bodies[0], broken.ID) {
					return false, errors.New("ServiceUnavailable")
				}
				return true, nil
			}
		},
		"a panic": func(_ *desk, broken job.Job) sim.Hook {
			return func(c sim.Call) (bool, error) {
				if c.Op == sim.Transact && c.Keys[0].SK == broken.ID {
					panic("on the way")
				}
				return true, nil
			}
		},
	} {
		for which := range 3 {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				atDesk(t, func(t *testing.T, d *desk) {
					var list []job.Job
					for _, target := range []string{"a", "b", "c"} {
						j, err := d.ask(nil, target)
						if err != nil {
							t.Fatal(err)
						}
						list = append(list, j)
					}
					d.take(til)
					time.Sleep(reaper.Unsent + reaper.Margin + time.Second)
					broken := list[which]
					err := d.reaper(lead(d, broken)).Handle(t.Context())
					if err == nil || !strings.Contains(err.Error(), broken.ID) {
						t.Errorf("got %v, want an error that names %s", err, broken.ID)
					}
					same(t, "messages", d.waiting(til), 2)
					if got := d.bodies(); strings.Contains(strings.Join(got, " "), broken.ID) {
						t.Errorf("sent %v", got)
					}
					if name == "not to be decoded" { // mend it for the audit
						key := store.Key{Table: job.Table, PK: "JOBS#til#" + broken.CreatedAt.Format("2006-01"), SK: broken.ID}
						if err := d.store.Transact(t.Context(), store.Update(key, store.Attrs{"attempt": 0}, nil)); err != nil {
							t.Fatal(err)
						}
					}
				})
			})
		}
	}
}

// The start of a process whose queue was its memory: what waited is sent, what was at work is handed on whatever its lease says, the last attempt is given up, and a slot of a job that is over is freed. A job that
// cannot be handed on stops no other. A second start beside it does no harm.
func TestRecoverSingleJobs(t *testing.T) {
	t.Parallel()
	atDesk(t, func(t *testing.T, d *desk) {
		list := map[string]job.Job{}
		for _, target := range []string{"waits", "works", "pauses", "last", "over", "broken"} {
			j, err := d.ask(nil, target)
			if err != nil {
				t.Fatal(err)
			}
			list[target] = j
		}
		d.claim(list["works"])
		if _, err := d.claim(list["pauses"]).Release(t.Context(), "busy", time.Hour); err != nil {
			t.Fatal(err)
		}
		for n := range job.Attempts {
			c := d.claim(list["last"])
			if n < job.Attempts-1 {
				if _, err := c.Release(t.Context(), "busy", 0); err != nil {
					t.Fatal(err)
				}
			}
		}
		held, _, err := d.jobs.Holder(t.Context(), list["over"].Slot)
		if err != nil {
			t.Fatal(err)
		}
		d.publish(d.claim(list["over"]))
		if err := d.store.Transact(t.Context(), store.Put(slotKey(t, d.world, held), held)); err != nil {
			t.Fatal(err)
		}
		d.claim(list["broken"])
		d.take(til)

		err = d.reaper(func(c sim.Call) (bool, error) {
			if c.Op == sim.Transact && c.Keys[0].SK == list["broken"].ID {
				return false, sim.ErrNoAnswer
			}
			return true, nil
		}).Recover(t.Context())
		if err == nil || !strings.Contains(err.Error(), list["broken"].ID) || strings.Count(err.Error(), "recover job") != 1 {
			t.Errorf("got %v, want an error of %s alone", err, list["broken"].ID)
		}
		d.ends(list["waits"], job.Pending, "", 0)
		d.ends(list["works"], job.Pending, "", 1)
		d.ends(list["pauses"], job.Pending, "", 1)
		d.ends(list["last"], job.Failed, job.ReasonOrphaned, 3)
		d.ends(list["over"], job.Completed, "", 1)
		d.ends(list["broken"], job.Running, "", 1)
		want := []string{list["waits"].ID, list["works"].ID, list["pauses"].ID}
		slices.Sort(want)
		same(t, "messages", d.bodies(), want)

		if err := d.reaper(nil).Recover(t.Context()); err != nil {
			t.Fatal(err)
		}
		d.ends(list["broken"], job.Pending, "", 1)
		for _, target := range []string{"waits", "works", "pauses", "broken"} {
			if !slices.Contains(d.bodies(), list[target].ID) {
				t.Errorf("no message of the job that %s", target)
			}
		}
		d.work(nil)
		for target, j := range list {
			if state := d.find(j.ID).State; state.Active() != (target == "pauses") {
				t.Errorf("the job that %s is %s", target, state)
			}
		}
		time.Sleep(time.Hour)
		d.work(nil)
		d.ends(list["pauses"], job.Completed, "", 2)
	})
}

// A process that starts while the job it read is completed by another leaves the job alone.
func TestRecoverIsOvertaken(t *testing.T) {
	t.Parallel()
	for name, claimed := range map[string]bool{"waits": false, "works": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			atDesk(t, func(t *testing.T, d *desk) {
				j := d.open()
				d.take(til)
				var c *job.Claim
				if claimed {
					c = d.claim(j)
				}
				err := d.reaper(func(x sim.Call) (bool, error) {
					if x.Op == sim.Transact && x.N == 1 {
						if c == nil {
							c = d.claim(j)
						}
						d.publish(c)
					}
					return true, nil
				}).Recover(t.Context())
				if err != nil {
					t.Error(err)
				}
				d.ends(j, job.Completed, "", 1)
				same(t, "messages", d.waiting(til), 0)
			})
		})
	}
}

// The metric of stalled jobs counts single jobs that did not get on by themselves, and only those.
func TestStalledSingleJobsAreCounted(t *testing.T) {
	t.Parallel()
	atDesk(t, func(t *testing.T, d *desk) {
		var list []job.Job
		for _, target := range []string{"fresh", "unsent", "dead", "dead in its last attempt", "lively"} {
			j, err := d.ask(nil, target)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, j)
		}
		d.claim(list[2])
		for n := range job.Attempts {
			if c := d.claim(list[3]); n < job.Attempts-1 {
				if _, err := c.Release(t.Context(), "busy", 0); err != nil {
					t.Fatal(err)
				}
			}
		}
		time.Sleep(reaper.Unsent + reaper.Margin + time.Second)
		d.claim(list[4])
		d.claim(list[0])
		d.reap()
		same(t, "stalled", d.metrics["/StalledJobs"], []float64{3})
		d.take(til)
		d.reap()
		same(t, "stalled", d.metrics["/StalledJobs"], []float64{3, 0})
	})
}

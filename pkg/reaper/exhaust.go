package reaper

import (
	"context"

	"hanbeon/pkg/job"
	"hanbeon/pkg/worker"
)

// exhaust settles what is unsettled as failure `exhausted`, and closes the job. Messages may still be about: whichever of the two comes second is refused by the item of the first.
func (r *Reaper) exhaust(ctx context.Context, j job.Job) error {
	kind, err := r.kinds.Bulk(j.Kind)
	if err != nil {
		return err
	}
	w := worker.NewBulk(r.env, kind)
	err = r.unsettled(ctx, j, kind, func(subjects []string) error {
		return w.GiveUp(ctx, j, subjects, job.ReasonExhausted)
	})
	if err != nil {
		return err
	}
	_, err = r.jobs.Close(ctx, j.ID)
	return err
}

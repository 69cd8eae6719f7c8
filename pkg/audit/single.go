package audit

import "hanbeon/pkg/job"

// single checks the jobs of a single kind: the slots are checked for all kinds together.
func (c *checker) single(jobs []job.Job) {
	for _, j := range jobs {
		c.report.Jobs++
		if j.State.Active() {
			c.report.Active++
		}
		switch {
		case !j.Single():
			c.violated("I5 job %s: is of a single kind and has segments", j.ID)
		case j.Attempt > j.MaxAttempts:
			c.violated("I5 job %s: is in attempt %d of %d", j.ID, j.Attempt, j.MaxAttempts)
		case j.Attempt == 0 && (j.State == job.Running || j.State == job.Completed):
			c.violated("I5 job %s: is %s and was never claimed", j.ID, j.State)
		case j.State == job.Running && (j.Claim == "" || j.LeaseUntil.IsZero()):
			c.violated("I5 job %s: is RUNNING without a lease", j.ID)
		case j.Ending != "":
			c.violated("I5 job %s: a single job ends at once, but is marked as ending", j.ID)
		}
	}
}

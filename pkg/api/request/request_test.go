package request_test

import (
	"net/http/httptest"
	"testing"

	"hanbeon/pkg/api/request"
)

// KEY-06 leans on this: an Idempotency-Key belongs to the role, not to one of its sessions.
func TestTheScopeOfACallerHasNoSessionName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, arn, want string }{
		{"a session of a role", "arn:aws:sts::123456789012:assumed-role/Spring/i-0abc", "123456789012/role/Spring"},
		{"another session of it", "arn:aws:sts::123456789012:assumed-role/Spring/botocore-session-1", "123456789012/role/Spring"},
		{"the same role name in another account", "arn:aws:sts::210987654321:assumed-role/Spring/i-0abc", "210987654321/role/Spring"},
		{"another partition", "arn:aws-cn:sts::123456789012:assumed-role/Spring/i-0abc", "123456789012/role/Spring"},
		{"all characters a session name may have", "arn:aws:sts::123456789012:assumed-role/a_b+c=d,e.f@g-h/x_y+z=1,2.3@4-5", "123456789012/role/a_b+c=d,e.f@g-h"},
		{"an IAM user", "arn:aws:iam::123456789012:user/team/kim", "arn:aws:iam::123456789012:user/team/kim"},
		{"a user who calls itself a role", "arn:aws:iam::123456789012:assumed-role/Spring/i-0abc", "arn:aws:iam::123456789012:assumed-role/Spring/i-0abc"},
		{"the root of an account", "arn:aws:iam::123456789012:root", "arn:aws:iam::123456789012:root"},
		{"a federated user", "arn:aws:sts::123456789012:federated-user/kim", "arn:aws:sts::123456789012:federated-user/kim"},
		{"a session without a name", "arn:aws:sts::123456789012:assumed-role/Spring", "arn:aws:sts::123456789012:assumed-role/Spring"},
		{"a role without a name", "arn:aws:sts::123456789012:assumed-role//i-0abc", "arn:aws:sts::123456789012:assumed-role//i-0abc"},
		{"no account", "arn:aws:sts:::assumed-role/Spring/i-0abc", "arn:aws:sts:::assumed-role/Spring/i-0abc"},
		{"too many parts", "arn:aws:sts::123456789012:assumed-role/a/b/c", "arn:aws:sts::123456789012:assumed-role/a/b/c"},
		{"no ARN at all", "kim", "kim"},
		{"unknown", request.Unknown, "unknown"},
		{"nothing", "", "unknown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := (request.Caller{ARN: c.arn}).Scope(); got != c.want {
				t.Errorf("Scope of %q = %q, want %q", c.arn, got, c.want)
			}
		})
	}
}

// EMU-06: where no gateway vouched for anybody, the caller is unknown, and nothing panics.
func TestACallerNobodyVouchedForIsUnknown(t *testing.T) {
	t.Parallel()
	unknown := request.Caller{ARN: "unknown"}
	if got := request.From(t.Context()); got != unknown {
		t.Errorf("caller of an empty context = %+v, want %+v", got, unknown)
	}
	if got := request.ID(t.Context()); got != "" {
		t.Errorf("id of an empty context = %q, want none", got)
	}
	ctx := request.With(t.Context(), request.Caller{}, "id-1")
	if got := request.From(ctx); got != unknown {
		t.Errorf("caller without an ARN = %+v, want %+v", got, unknown)
	}
	kim := request.Caller{ARN: "arn:aws:iam::123456789012:user/kim", Account: "123456789012"}
	ctx = request.With(ctx, kim, "id-2")
	if got := request.From(ctx); got != kim {
		t.Errorf("caller = %+v, want %+v", got, kim)
	}
	if got := request.ID(ctx); got != "id-2" {
		t.Errorf("id = %q, want id-2", got)
	}
}

func TestIDsOfRequestsDiffer(t *testing.T) {
	t.Parallel()
	if a, b := request.NewID(), request.NewID(); a == b || len(a) < 20 {
		t.Errorf("two ids = %q and %q, want two long ones that differ", a, b)
	}
}

func TestAProblemHasTheMembersOfRFC9457(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, detail string
		status       int
		want         string
	}{
		{"without detail", "", 500, `{"type":"about:blank","title":"Internal Server Error","status":500}`},
		{"with detail", `the "body"`, 400, `{"type":"about:blank","title":"Bad Request","status":400,"detail":"the \"body\""}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := httptest.NewRecorder()
			request.Problem(w, c.status, c.detail)
			if got := w.Body.String(); got != c.want || w.Code != c.status {
				t.Errorf("answer = %d %s, want %d %s", w.Code, got, c.status, c.want)
			}
			if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
				t.Errorf("Content-Type = %q, want application/problem+json", got)
			}
		})
	}
}

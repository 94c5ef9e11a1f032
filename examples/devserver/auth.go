package devserver

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// administrator has the name and groups of kubeadm's administrator.
var administrator = &user.DefaultInfo{
	Name:   "kubernetes-admin",
	Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated},
}

// limited is the user whose permissions Options.Allow decides.
var limited = &user.DefaultInfo{Name: "limited", Groups: []string{user.AllAuthenticated}}

// access has the users, and what the limited one may do.
type access struct {
	users map[string]user.Info // by bearer token
	allow func(authorizer.Attributes) bool
}

// newAuthenticator accepts only the users' bearer tokens: no anonymous user, no client certificates.
func newAuthenticator(users map[string]user.Info) authenticator.Request {
	type known struct {
		token [sha256.Size]byte
		user  user.Info
	}
	var all []known
	for token, u := range users {
		all = append(all, known{sha256.Sum256([]byte(token)), u})
	}
	tokens := authenticator.TokenFunc(func(_ context.Context, token string) (*authenticator.Response, bool, error) {
		got := sha256.Sum256([]byte(token))
		var found user.Info
		for _, k := range all {
			if subtle.ConstantTimeCompare(got[:], k.token[:]) == 1 {
				found = k.user
			}
		}
		return &authenticator.Response{User: found}, found != nil, nil
	})
	return bearertoken.New(tokens)
}

// newAuthorizer permits the limited user what allow permits, and all other users everything. A nil allow permits the
// limited user nothing.
func newAuthorizer(allow func(authorizer.Attributes) bool) authorizer.Authorizer {
	decide := func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if a.GetUser().GetName() != limited.Name || allow != nil && allow(a) {
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionNoOpinion, "Options.Allow denies it", nil
	}
	return authorizer.AuthorizerFunc(decide)
}

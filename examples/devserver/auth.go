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

// administrator has the name and groups kubeadm gives to its administrator.
var administrator = &user.DefaultInfo{
	Name:   "kubernetes-admin",
	Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated},
}

// limited is the user whose rights Options.Allow decides about.
var limited = &user.DefaultInfo{Name: "limited", Groups: []string{user.AllAuthenticated}}

// access is who may do what.
type access struct {
	users map[string]user.Info // by bearer token
	allow func(authorizer.Attributes) bool
}

// newAuthenticator accepts the users' bearer tokens and nothing else: no anonymous
// user, no client certificate.
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
		var who user.Info
		for _, k := range all {
			if subtle.ConstantTimeCompare(got[:], k.token[:]) == 1 {
				who = k.user
			}
		}
		return &authenticator.Response{User: who}, who != nil, nil
	})
	return bearertoken.New(tokens)
}

// newAuthorizer lets allow decide about the limited user, and allows the others
// everything. Nil allows the limited user nothing.
func newAuthorizer(allow func(authorizer.Attributes) bool) authorizer.Authorizer {
	return authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if a.GetUser().GetName() != limited.Name || allow != nil && allow(a) {
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionNoOpinion, "Options.Allow says no", nil
	})
}

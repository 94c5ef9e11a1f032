package devserver

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/user"
)

// administrator is the one user there is, with the name and groups kubeadm gives
// to its administrator.
var administrator = &user.DefaultInfo{
	Name:   "kubernetes-admin",
	Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated},
}

// newAuthenticator accepts one bearer token and nothing else: no anonymous user,
// no client certificate.
func newAuthenticator(token string) authenticator.Request {
	want := sha256.Sum256([]byte(token))
	tokens := authenticator.TokenFunc(func(_ context.Context, token string) (*authenticator.Response, bool, error) {
		got := sha256.Sum256([]byte(token))
		if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			return nil, false, nil
		}
		return &authenticator.Response{User: administrator}, true, nil
	})
	return bearertoken.New(tokens)
}

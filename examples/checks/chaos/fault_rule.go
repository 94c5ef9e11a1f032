package main

import (
	"context"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/gvrwatch/gvrwatch/internal/testing/servers"
)

// ruleBreaker is a server that breaks a rule of the API conventions, as the proxy plays it for a while.
type ruleBreaker struct {
	name  string
	what  string
	play  func() servers.Personality
	frame []byte // ends each open watch; without it the connections are reset
}

// Only restarts-watches breaks a rule about versions. Without it a GAP for the reason "unordered" would be a mistake.
var ruleBreakers = []ruleBreaker{
	{name: "gateway", what: "a gateway that answers 4xx", play: servers.Gateway},
	{name: "drips", what: "its bytes drip", play: func() servers.Personality { return servers.Drips(200) }},
	{
		name: "ignores-timeout", what: "it ignores timeoutSeconds",
		play: func() servers.Personality { return servers.IgnoresTimeout(0) },
	},
	{
		name: "webhook-down", what: "a conversion webhook fails for one object",
		play: func() servers.Personality { return servers.WebhookDown("o-3") }, frame: expired,
	},
	{
		name: restartsWatches, what: "its watches begin with what exists",
		play: func() servers.Personality { return servers.RestartsWatches(3) },
	},
	{
		name: "empty-pages", what: "its lists have pages without objects",
		play: func() servers.Personality { return servers.EmptyPages(4) }, frame: expired,
	},
}

// breakRule also ends the connections that are open at its beginning and at its end.
func breakRule(ctx context.Context, w *world, r *rand.Rand, b ruleBreaker) error {
	p := b.play()
	w.proxy.answerWith(&falseAnswer{name: b.name, respond: func(to http.ResponseWriter, r *http.Request,
		next http.Handler) {
		p.Before(next).ServeHTTP(to, r)
	}})
	if b.frame == nil {
		w.proxy.reset(everyConn)
	} else {
		w.proxy.orderAll(frameOrder{add: b.frame})
	}
	pause(ctx, between(r, 1500*time.Millisecond, 5*time.Second))
	w.proxy.answerWith(nil)
	w.proxy.reset(everyConn)
	return nil
}

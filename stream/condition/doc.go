// Package condition waits until objects meet a condition, as kubectl wait does: over several objects of several types
// at once, across gaps, and without mistaking a recreated object for the old one.
//
// [Parse] reads a [Condition] in the syntax of kubectl wait --for. [Wait] watches a Stream or a Mux until the condition
// is met.
//
//	c, err := gvrwatch.Connect(nil) // what kubectl would use
//	s, err := c.Stream(ctx, "pods", &stream.Options{Namespaces: []string{"shop"}}) // and a Name, if one is enough
//	ready, err := condition.Parse("condition=Ready")
//	err = condition.Wait(ctx, s, ready, condition.Target{Namespace: "shop", Name: "web"})
//
// # Promises
//
//   - A state, not an event: Wait returns nil when the newest state of every target meets the condition at the same
//     moment, and everything is synced at that moment. A target that met it and no longer does is waited for again.
//   - After a GAP, Wait gives no answer until SYNCED.
//   - A recreated object (another uid) is another object: what the old one met does not count, even if it was recreated
//     during a gap.
//   - For "delete", what counts are the objects, by uid, that existed when everything was synced for the first time.
//     Objects created after that do not count, even under the same name. If there are none, the condition is met.
//   - A target is not known before its resource is synced, so Wait goes on while a follow.Mux does not watch the
//     resource, even for "delete".
//   - For all other conditions a target that does not exist does not meet the condition. Wait goes on until it exists.
//   - Without targets every object that the source delivers is one, also one that is created during the wait, and at
//     least one must exist. If none exists when everything is synced for the first time, Wait returns [ErrNoObjects].
//     For "delete" it returns nil instead, and for "create" it goes on.
//   - Wait keeps the uid of each target in memory, and its name while it does not meet the condition: about 110 and 230
//     bytes. With stream.Raw it decodes only objects whose content matters.
//   - Whatever an object contains, no condition panics, and no error quotes it.
//
// # Differences from kubectl wait
//
//   - kubectl waits for one object after the other, and forgets an object once it has met the condition.
//   - kubectl fails if an object does not exist when its turn comes, except for "create" and "delete". Wait goes on.
//   - A jsonpath with an index beyond the end of a list, or an index or filter on a value that is no list, has no
//     value. kubectl fails.
//   - The value of a jsonpath in braces may contain "=", and a jsonpath may begin with $ or with [. Without braces, the
//     operators !=, <= and >= belong to the path; kubectl cuts the text at their "=".
//
// # Not promised
//
//   - An object that does not match the selectors or namespaces of the source does not exist for Wait.
//   - The state at this moment. What counts is what the source has delivered: while a part of it cannot be watched (a
//     server that fails, a namespace that becomes forbidden), the objects of that part keep their last state, without a
//     bound on the time. Where this matters, look at the Status of the source.
//   - Wait needs every object, so it refuses a Sequence whose Run has a Start or a Checkpoint, and a Mux with such a
//     source, also if that is added later. It can't see the Runs of follow.Options.Source.
//   - A Mux whose Options.OnError returns Retry or Drop. A source that is started again may be synced before it has
//     caught up, and the objects of one that is dropped keep their last state.
//   - An answer without an event. If the last source that was not synced is removed from a Mux, Wait goes on until some
//     event arrives. A Mux without sources, and a follow.Mux whose selection matches nothing, have no events.
//   - If two sources of a Mux deliver the same object, it has to meet the condition in both.
//   - With a follow.Mux and no targets, that all resources are known: Wait may return once those are synced that are
//     attached by then.
package condition

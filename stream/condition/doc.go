// Package condition waits until objects meet their conditions, as kubectl wait does for one: for several objects of
// several types at once, each with a condition of its own, across gaps, and without mistaking a recreated object for
// the old one.
//
// A [Target] is an object, or every object of a resource or a namespace, and a [Condition]. [Parse] and [MustParse]
// read one in the syntax of kubectl wait --for, and [New] makes one of a function. [Wait] watches a Stream or a Mux
// until all targets meet their conditions. gvrwatch.Connection has a Wait that also makes these:
//
//	c, err := gvrwatch.Connect(nil) // what kubectl would use
//	available, complete := condition.MustParse("condition=Available"), condition.MustParse("condition=Complete")
//	err = c.Wait(ctx,
//		condition.Target{For: available, Resource: "deploy", Namespace: "shop", Name: "web"},
//		condition.Target{For: complete, Resource: "job", Namespace: "shop", Name: "seed"})
//	if err != nil {
//		log.Fatal(err) // it says which of them do not meet their condition, and why
//	}
//
// With a source of the program's own:
//
//	s, err := c.Stream(ctx, "pods", &stream.Options{Namespaces: []string{"shop"}, LabelSelector: "app=web"})
//	err = condition.Wait(ctx, s, condition.Target{For: condition.MustParse("condition=Ready")}) // every pod
//
// # Promises
//
//   - A state, not an event: Wait returns nil when the newest state of every target meets the target's condition at the
//     same moment, and everything is synced at that moment. A target that met it and no longer does is waited for
//     again.
//   - After a GAP, Wait gives no answer until SYNCED.
//   - A recreated object (another uid) is another object: what the old one met does not count, even if it was recreated
//     during a gap.
//   - For "delete", what counts are the objects, by uid, that existed when the target was known for the first time.
//     Objects created after that do not count, even under the same name. If there are none, the condition is met.
//   - A target is known as soon as everything is synced that the source watches, the target's resource among it. So
//     Wait goes on while a follow.Mux does not watch the resource, even for "delete".
//   - For all other conditions a target that does not exist does not meet its condition. Wait goes on until it exists.
//   - A target without a name is every object that the source delivers of its resource, in its namespace; of all
//     resources or namespaces if that is empty. An object counts, too, if it is created during the wait, and at least
//     one must exist. If none exists when the target is known for the first time, Wait returns [ErrNoObjects], whatever
//     other targets do, with one exception: if there is also a target for "create" with the same Resource and Namespace
//     and without a name, Wait goes on until the first object is created. For "delete" the condition is met then.
//   - Several targets may concern one object: it has to meet all their conditions. A target that is there twice counts
//     once. The order of targets does not matter.
//   - Wait keeps the uid of each object in memory for each of its targets, and its name while it does not meet the
//     condition: about 110 and 230 bytes. With stream.Raw it decodes only objects whose content matters, and each state
//     once.
//   - Whatever an object contains, no condition of Parse panics, and no error of it quotes the object. A panic of a
//     function is an error.
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
//   - An order between resources: "at the same moment" means the newest states that the source has delivered of each.
//   - If two sources of a Mux deliver the same object, it has to meet the condition in both.
//   - With a follow.Mux and a target without a resource: resources of an API that does not answer at the beginning, and
//     in a later run of the Mux those that are new. Wait may return before they are known.
//   - With several clusters in one Mux (follow.Options.Into), that all clusters are known, also if the target has a
//     resource: one that has not answered yet is not waited for. So the answer may be that of the clusters that are
//     synced first, although the object of another one does not meet the condition. An [UnmetError] does not say which
//     cluster an object is in. Where this matters, wait for each cluster by itself.
//   - That a target's namespace is checked, if a program has made the gvr.Resource without Namespaced and Verbs. In a
//     cluster-scoped resource no object has a namespace: a target that has one does not exist, and "delete" is met.
package condition

// Package timeline makes one HTML page of what happened to objects: one row an object, a mark for each event, and the
// difference that an event made. The page needs nothing but itself: a browser opens it from a disk without a network.
//
// [Of] makes a [Page] of a recording, and [Write] writes it. What comes from servers reaches the page as JSON that
// html/template has escaped, and its script shows it as text only. How events are recorded is not decided here.
package timeline

package guard

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// maxText is how many bytes a text of an error may have.
	maxText = 1 << 10
	// maxCauses is how many causes of a Status are kept.
	maxCauses = 20
)

// conversion matches what a kube-apiserver answers, as text, if it can't convert an object. It names the kind only.
var conversion = regexp.MustCompile(`conversion webhook for [\w./, =-]+ failed`)

// Redact returns err without parts of objects, passwords in URLs, and long texts. client-go, apimachinery and net/http
// put what they can't decode into errors, whole lists among it.
//
//   - A text ends where it begins to quote what was wrong, unless it is the message of a server's Status.
//   - Of the body of an answer that is no Status, only the length is kept, and whether a conversion webhook failed.
//   - Other texts are cut to 1 KiB, and the causes of a Status to 20.
//
// This holds for all errors that err wraps, too. If nothing has to change, Redact returns err. Otherwise errors.Is and
// errors.As find those of its errors that did not have to change, and an [*apierrors.StatusError] with the code, the
// reason and the details of a Status that had to.
func Redact(err error) error {
	if err == nil {
		return nil
	}
	err, _ = redact(err)
	return err
}

func redact(err error) (_ error, changed bool) {
	if status, ok := err.(apierrors.APIStatus); ok {
		s := status.Status()
		if redacted := redactStatus(s); !reflect.DeepEqual(redacted, s) {
			return &apierrors.StatusError{ErrStatus: redacted}, true
		}
		return err, false
	}
	if _, ours := err.(*Error); ours {
		return err, false
	}
	text := err.Error()
	own := text // with a placeholder for each wrapped error, whose text has been redacted already
	wrapped := unwrap(err)
	var inserted []string
	for i, w := range wrapped {
		redacted, different := redact(w)
		if t := w.Error(); t != "" {
			own = strings.ReplaceAll(own, t, placeholder(i))
			inserted = append(inserted, placeholder(i), redacted.Error())
		}
		wrapped[i], changed = redacted, changed || different
	}
	redacted := cut(strings.NewReplacer(inserted...).Replace(redactText(own)))
	if !changed && redacted == text {
		return err, false
	}
	return &redactedError{redacted, wrapped}, true
}

// placeholder returns a character that no text of an error has: one for private use.
func placeholder(i int) string { return string(rune(0xF0000 + i%0x1000)) }

func unwrap(err error) []error {
	switch err := err.(type) {
	case interface{ Unwrap() []error }:
		return append([]error(nil), err.Unwrap()...)
	case interface{ Unwrap() error }:
		if wrapped := err.Unwrap(); wrapped != nil {
			return []error{wrapped}
		}
	}
	return nil
}

// redactedError stands for an error that had to change.
type redactedError struct {
	text    string
	wrapped []error
}

func (e *redactedError) Error() string { return e.text }

func (e *redactedError) Unwrap() []error { return e.wrapped }

// known are texts that quote an object and say nothing else. A server's Status may have one, too.
var known = []struct {
	text    *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`Object 'Kind' is missing in '`), "an object lacks its kind"},
	{regexp.MustCompile(`Object 'apiVersion' is missing in '`), "an object lacks its apiVersion"},
	{regexp.MustCompile(`unexpected object: `), "there is an object in the place of a Status"},
	{regexp.MustCompile(`cannot unmarshal number \S+ into Go`), "a number is out of range"},
	{regexp.MustCompile(`\bstrconv\.\w+: parsing `), "invalid value"},
	// Both quote the URL: in an invalid one the password can't be recognized.
	{regexp.MustCompile(`host must be a URL or a host:port pair: `), "host must be a URL or a host:port pair"},
	{regexp.MustCompile(`\bparse ".*": `), "invalid URL"},
}

// quotation matches a word that says that something could not be decoded, and what follows up to a quotation: a quote
// mark, a bracket, or a colon before anything but a wrapped error.
var quotation = regexp.MustCompile(`(?is)(?:^|[\s(])` +
	`(?:accessor error|bad|cannot unmarshal|duplicate|invalid|malformed|multiple|no kind|no version|parsing|` +
	`unexpected|unknown|unrecognized|unsupported|ParseAddr\(|netip\.ParsePrefix\()(?:\s.*?)??` +
	`(\s?["'\x60<\[{]|: [^\x{F0000}-\x{F0FFF}])`)

var password = regexp.MustCompile(`://\S*@`)

// redactText redacts a text of client-go, apimachinery or Go.
func redactText(s string) string {
	s = redactMessage(s)
	if at := quotation.FindStringSubmatchIndex(s); at != nil {
		return s[:at[2]] + "..."
	}
	return s
}

// redactMessage redacts a text of a server, which may quote names.
func redactMessage(s string) string {
	for _, k := range known {
		if k.text.MatchString(s) {
			return k.instead
		}
	}
	return cut(password.ReplaceAllLiteralString(s, "://***@"))
}

// cut cuts s to maxText bytes, and says how many are missing.
func cut(s string) string {
	if len(s) <= maxText {
		return s
	}
	n := maxText - len("... (1234567890 bytes cut)")
	for least := n - utf8.UTFMax; n > least && !utf8.RuneStart(s[n]); {
		n--
	}
	return fmt.Sprintf("%s... (%d bytes cut)", s[:n], len(s)-n)
}

func redactStatus(s metav1.Status) metav1.Status {
	s.ListMeta = metav1.ListMeta{}
	s.Kind, s.APIVersion, s.Status = cut(s.Kind), cut(s.APIVersion), cut(s.Status)
	s.Reason = metav1.StatusReason(cut(string(s.Reason)))
	if s.Details != nil {
		d := *s.Details
		s.Details = &d
		d.Name, d.Group, d.Kind, d.UID = cut(d.Name), cut(d.Group), cut(d.Kind), types.UID(cut(string(d.UID)))
		causes := d.Causes[:min(len(d.Causes), maxCauses)]
		d.Causes = nil
		for _, c := range causes {
			switch c.Type {
			case metav1.CauseTypeUnexpectedServerResponse:
				body := c.Message
				if body == notServed || body == tooLong(int(s.Code)) {
					break // it quotes nothing; IsGateway asks for the first one
				}
				c.Message = fmt.Sprintf("the server answered %d with %d bytes that are no Status", s.Code, len(body))
				if found := conversion.FindString(body); found != "" {
					c.Message += ": " + found
				}
				// client-go may have put the body into s.Message, too (NewGenericServerResponse).
				if strings.Contains(s.Message, body) || strings.Contains(s.Message, strconv.Quote(body)) {
					s.Message = c.Message
				}
			case ClientDecoding:
				c.Message, s.Message = redactText(c.Message), redactText(s.Message)
			}
			d.Causes = append(d.Causes, metav1.StatusCause{
				Type:    metav1.CauseType(cut(string(c.Type))),
				Message: redactMessage(c.Message),
				Field:   cut(c.Field),
			})
		}
	}
	s.Message = redactMessage(s.Message)
	return s
}

// ClientDecoding is the cause that client-go gives to a Status which it has made itself, because it could not read or
// decode an event (rest.Request.newStreamWatcher).
const ClientDecoding metav1.CauseType = "ClientWatchDecoding"

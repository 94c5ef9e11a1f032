package guard

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"unicode"
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

// Redact returns err without parts of objects, passwords in URLs, and long texts. client-go and apimachinery put
// objects, whole lists among them, into the errors about what they can't decode.
//
//   - A text of apimachinery or client-go that quotes what it can't decode is replaced by one that quotes nothing.
//   - The body of an answer that is no Status is left out, unless it is a line without brackets, as those of proxies.
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
	text := err.Error()
	wrapped := unwrap(err)
	for i, w := range wrapped {
		redacted, different := redact(w)
		if !different {
			continue
		}
		wrapped[i], changed = redacted, true
		if quoted := w.Error(); quoted != "" {
			text = strings.ReplaceAll(text, quoted, redacted.Error())
		}
	}
	redacted := redactText(text)
	if !changed && redacted == text {
		return err, false
	}
	return &redactedError{redacted, wrapped}, true
}

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

// bodies are texts that quote a whole object. A server's Status may have one, too.
var bodies = []quotation{
	{regexp.MustCompile(`Object 'Kind' is missing in '`), "an object lacks its kind"},
	{regexp.MustCompile(`Object 'apiVersion' is missing in '`), "an object lacks its apiVersion"},
	{regexp.MustCompile(`unexpected object: `), "there is an object in the place of a Status"},
}

// values are texts of a client that quote what it can't decode.
var values = append([]quotation{
	{regexp.MustCompile(`got invalid watch event type: `), "the type of an event is unknown"},
	{regexp.MustCompile(`cannot unmarshal number \S+ into Go`), "a number is out of range"},
	{regexp.MustCompile(`invalid character '`), "invalid JSON"},
	{regexp.MustCompile(`strconv\.\w+: parsing |parsing time `), "invalid value"},
	// Both quote the URL: in an invalid one the password can't be recognized.
	{regexp.MustCompile(`host must be a URL or a host:port pair: `), "host must be a URL or a host:port pair"},
	{regexp.MustCompile(`\bparse ".*": `), "invalid URL"},
}, bodies...)

type quotation struct {
	text    *regexp.Regexp
	instead string
}

var password = regexp.MustCompile(`://[^/\s"]*@`)

func redactText(s string) string { return withoutQuotations(s, values) }

func withoutQuotations(s string, of []quotation) string {
	for _, q := range of {
		if q.text.MatchString(s) {
			return q.instead
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
			if c.Type == metav1.CauseTypeUnexpectedServerResponse && mayBeObject(c.Message) {
				// client-go has put this text into s.Message, too (NewGenericServerResponse).
				n := len(c.Message)
				s.Message = fmt.Sprintf("the server answered %d with %d bytes that are no Status", s.Code, n)
				c.Message = s.Message
			}
			d.Causes = append(d.Causes, metav1.StatusCause{
				Type:    metav1.CauseType(cut(string(c.Type))),
				Message: withoutQuotations(c.Message, bodies),
				Field:   cut(c.Field),
			})
		}
	}
	s.Message = withoutQuotations(s.Message, bodies)
	return s
}

// mayBeObject reports whether a body may be an object in JSON, YAML or a binary form: these have brackets, several
// lines, or control characters.
func mayBeObject(body string) bool {
	return !utf8.ValidString(body) || strings.ContainsFunc(body, func(r rune) bool {
		return unicode.IsControl(r) || strings.ContainsRune("{}[]<>", r)
	})
}

package decode

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// List decodes a list all of which has come.
func (d *Decoder) List(data []byte) (*unstructured.UnstructuredList, error) {
	l := d.Lister()
	if err := l.Come(data); err != nil {
		return nil, err
	}
	return l.List()
}

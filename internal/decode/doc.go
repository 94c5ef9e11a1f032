// Package decode turns the JSON of lists and watches into the maps that
// unstructured objects are made of, with the results of apimachinery's decoder and
// several times faster.
package decode

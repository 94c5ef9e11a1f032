package devserver

import (
	"flag"
	"io"
	"os"
	"sync"
	_ "unsafe" // for go:linkname

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc/grpclog"
	_ "k8s.io/apiserver/pkg/storage/storagebackend/factory" // has clientLogger
	"k8s.io/klog/v2"
)

// sink receives all logs of this process's servers.
var sink = &logSink{writers: map[*byte]io.Writer{}}

// etcdLogger is the logger of all embedded etcds, and of all etcd clients of the API servers.
var etcdLogger = newEtcdLogger()

// clientLogger is the logger of the API server's etcd clients. It is built once per process, writes to standard error,
// and warns of each failed request, even of those that a client cancelled. It can be replaced only through go:linkname.
//
//go:linkname clientLogger k8s.io/apiserver/pkg/storage/storagebackend/factory.etcd3ClientLogger
var clientLogger *zap.Logger

var takeLogsOver = sync.OnceFunc(func() {
	// klog writes a line to the outputs of its own severity and of all lower ones, and from the threshold on to
	// standard error as well.
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	flags.Set("stderrthreshold", "FATAL")
	for _, severity := range []string{"WARNING", "ERROR", "FATAL"} {
		klog.SetOutputBySeverity(severity, io.Discard)
	}
	klog.SetOutputBySeverity("INFO", sink)
	klog.LogToStderr(false)

	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, sink, sink))
	clientLogger = etcdLogger
})

// logTo adds a writer for the logs, unless it is nil, and returns a function that removes it.
func logTo(w io.Writer) (remove func()) {
	takeLogsOver()
	if w == nil {
		return func() {}
	}
	key := new(byte) // a unique address
	sink.mu.Lock()
	defer sink.mu.Unlock()
	sink.writers[key] = w
	return func() {
		klog.Flush()
		sink.mu.Lock()
		defer sink.mu.Unlock()
		delete(sink.writers, key)
	}
}

// logSink writes to all its writers, one line at a time.
type logSink struct {
	mu      sync.Mutex
	writers map[*byte]io.Writer
}

// Write never fails: a server must not stop because a log can't be written.
func (s *logSink) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.writers {
		w.Write(b)
	}
	return len(b), nil
}

func (s *logSink) used() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.writers) > 0
}

// newEtcdLogger returns a logger for warnings and errors. Fatal errors, with which etcd ends the process, go to
// standard error, so that the user learns why the process ended.
func newEtcdLogger() *zap.Logger {
	config := zap.NewProductionEncoderConfig()
	config.EncodeTime = zapcore.ISO8601TimeEncoder
	encoder := zapcore.NewConsoleEncoder(config)
	fatal := zap.LevelEnablerFunc(func(l zapcore.Level) bool { return l >= zap.FatalLevel })
	warn := zap.LevelEnablerFunc(func(l zapcore.Level) bool { return l >= zap.WarnLevel && sink.used() })
	return zap.New(zapcore.NewTee(
		zapcore.NewCore(encoder, zapcore.AddSync(sink), warn),
		zapcore.NewCore(encoder, zapcore.Lock(os.Stderr), fatal),
	)).Named("etcd")
}

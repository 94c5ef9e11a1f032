// Prints the events of a relay's stream as they come, and on Ctrl-C the objects that exist:
//
//	npm install && node consumer.mjs nats://localhost:4222 'k8s.*.core.pods.>'
//
// With NATS_CERTS, the folder of a Secret of deploy/certificates.yaml, it connects with the certificate that is there.
import { connect, DeliverPolicy } from "nats";

const [, , servers, filterSubjects = "k8s.>"] = process.argv;
const certs = process.env.NATS_CERTS;
const tls = certs && { caFile: `${certs}/ca.crt`, certFile: `${certs}/tls.crt`, keyFile: `${certs}/tls.key` };
const connection = await connect({ servers, tls, maxReconnectAttempts: -1 });

// The last event of each object, then all that come. After a lost connection it goes on where it was.
const options = { filterSubjects, deliver_policy: DeliverPolicy.LastPerSubject };
const consumer = await connection.jetstream().consumers.get("K8S", options);
const objects = new Map(); // by resource and uid

process.on("SIGINT", () => {
  for (const { metadata } of objects.values()) {
    console.log(["exists", metadata.namespace, metadata.name, metadata.resourceVersion].join(" "));
  }
  process.exit();
});

for await (const message of await consumer.consume()) {
  const event = message.json();
  const type = event.type.replace("io.gvrwatch.", "");
  const key = `${event.source} ${event.uid}`;
  if (type === "deleted") objects.delete(key);
  else if (event.uid) objects.set(key, event.data);
  console.log([type, event.source, event.subject, event.resourceversion].join(" "));
}

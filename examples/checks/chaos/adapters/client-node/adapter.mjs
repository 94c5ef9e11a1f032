// JavaScript's @kubernetes/client-node: makeInformer, started again some seconds after an error, as in its example.
// The install script puts this file beside its node_modules.
import { readFileSync } from 'node:fs';
import { CustomObjectsApi, KubeConfig, makeInformer } from '@kubernetes/client-node';

const restart = 5000; // milliseconds
const say = (line) => process.stdout.write(JSON.stringify(line) + '\n');

const about = JSON.parse(readFileSync(new URL('node_modules/@kubernetes/client-node/package.json', import.meta.url)));
const versions = `client-node ${about.version}, Node.js ${process.version}`;
say({ type: 'CLIENT', name: 'client-node, informer', version: versions });

const config = new KubeConfig();
config.loadFromFile(process.env.KUBECONFIG);

// The library reads the token once. A program whose token changes must set it.
const readToken = () => {
	config.getCurrentUser().token = readFileSync(process.env.JUDGE_TOKEN, 'utf8').trim();
};
readToken();
const objects = config.makeApiClient(CustomObjectsApi);

for (const path of process.env.JUDGE_RESOURCES.split(' ')) {
	const [, group, version, plural] = path.split('/');
	const resource = `${plural}.${group}`;
	const list = () => objects.listClusterCustomObject({ group, version, plural });
	const informer = makeInformer(config, '/' + path, list);
	let failed, synced;

	const start = async () => {
		failed = false;
		readToken();
		await informer.start();
		// It has listed and has a watch then. Events can have come since, which leaves the list's version unknown.
		if (!failed && !synced) {
			synced = true;
			say({ type: 'SYNCED', resource });
		}
	};
	const fail = (err) => {
		failed = true;
		say({ type: 'ERROR', message: `${resource}: ${err}`.slice(0, 300) });
		setTimeout(() => start().catch(fail), restart);
	};
	for (const [name, type] of [['add', 'ADDED'], ['update', 'MODIFIED'], ['delete', 'DELETED']]) {
		informer.on(name, (object) => say({ type, object }));
	}
	informer.on('error', fail);
	start().catch(fail);
}

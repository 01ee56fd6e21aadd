/** Nothing is sent anywhere unasked: every connection that a server opens, from its start to its end. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createServiceClient } from '../clients/typescript/client.ts';
import { startUpstream } from '../contract-tests/upstream/start-upstream.ts';
import { findExecutable } from './runtime/processes/executable.ts';
import { scriptedSettings, startServer, temporaryFolder, writeSettings } from './server-process.ts';

/** Where a model server on this machine is looked for: Ollama and LM Studio. */
const discovered = ['127.0.0.1:11434', '127.0.0.1:1234'];

/** By pictures and links a model could be made to send out what it knows; nothing here follows them. */
const drawing =
  'Look: ![chart](http://127.0.0.3:9/?secret) [more](http://127.0.0.4:9/) <img src="http://127.0.0.5:9/">';

test.skipIf(!findExecutable('strace')).each([
  ['true', { disable_metrics: true }, {}],
  ['false', { disable_metrics: false }, {}],
  ['no value', {}, {}],
  ['true, with a collector named,', { disable_metrics: true }, collector('http://127.0.0.1:4318')],
])(
  '`options.disable_metrics` of %s: only the provider that was asked is spoken to',
  async (_value, options, variables) => {
    const upstream = await startUpstream();
    const folder = await temporaryFolder();
    const record = join(folder, 'trace');
    await writeSettings(folder, { ...scriptedSettings(upstream.url), options });
    try {
      const server = await startServer({ folder, variables, through: tracer(record) });
      const client = createServiceClient({ baseUrl: server.url, token: server.key });
      const { data } = await client.POST('/api/v1/query', { body: { prompt: drawing } });
      expect(data.content).toMatchObject([{ type: 'text', text: `You said: ${drawing}` }]);
      await client.GET('/api/v1/metrics');
      expect(await server.stop()).toBe(0);
      const reached = await addressesIn(record, server.pid);
      expect(reached).toContain(new URL(upstream.url).host);
      expect(
        reached.filter((one) => one !== new URL(upstream.url).host && !discovered.includes(one)),
      ).toEqual([]);
    } finally {
      await upstream.stop();
    }
  },
);

function collector(url: string) {
  return { OTEL_EXPORTER_OTLP_ENDPOINT: url, OTEL_METRICS_EXPORTER: 'otlp', OTEL_TRACES_EXPORTER: 'otlp' };
}

/** Follows every process and writes down whatever names an address; itself a grandchild, so that signals reach the server. */
function tracer(record: string): string[] {
  const calls = 'connect,sendto,sendmsg,sendmmsg';
  return ['strace', '--daemonize', '--follow-forks', '--seccomp-bpf', `--trace=${calls}`, '--output', record];
}

/** Every address outside of this kernel that was named, once the trace has come to the server's end. */
async function addressesIn(record: string, pid: number): Promise<string[]> {
  await expect
    .poll(() => readFile(record, 'utf8'))
    .toMatch(new RegExp(`^${pid}\\s+\\+\\+\\+ exited with 0 `, 'm'));
  const trace = await readFile(record, 'utf8');
  const named = trace.matchAll(/sin6?_port=htons\((\d+)\).*?(?:inet_addr\(|inet_pton\(AF_INET6, )"([^"]+)"/g);
  return [...new Set([...named].map(([, port, host]) => `${host}:${port}`))];
}

// Starts the scripted upstream as a process of its own and talks to its control endpoints.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { RequestRecord } from './requests.ts';

export interface Upstream {
  url: string;
  /** Replaces the rules and forgets the requests so far. */
  script(rules: object[], models?: string[], list?: object): Promise<void>;
  requests(): Promise<RequestRecord[]>;
  /** Polls until the latest request is as described; the test's own timeout is the limit. */
  latest(until: (record: RequestRecord) => boolean): Promise<RequestRecord>;
  /** Lets go on what the script holds back now; what asks later is held all the same. */
  release(): Promise<void>;
  /** The same once somebody waits for an answer. */
  releaseHeld(): Promise<void>;
  /** Resolves with the exit code. */
  stop(signal?: 'SIGTERM' | 'SIGINT'): Promise<number | null>;
}

export async function startUpstream(...args: string[]): Promise<Upstream> {
  const program = fileURLToPath(new URL('upstream.ts', import.meta.url));
  const child = spawn(process.execPath, [program, '--follow-stdin', ...args], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, NODE_COMPILE_CACHE: process.env.TEST_CODE_CACHE },
  });
  const exited = once(child, 'exit');
  const lines = createInterface({ input: child.stdout });
  const [line] = await Promise.race([
    once(lines, 'line'),
    exited.then(([code]) => Promise.reject(new Error(`the upstream ended with ${code}`))),
  ]);
  const { url }: { url: string } = JSON.parse(line);
  const control = async (method: string, path: string, body?: unknown) => {
    const response = await fetch(url + path, {
      method,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const json: unknown = await response.json();
    if (!response.ok) throw new Error(JSON.stringify(json));
    return json;
  };
  const requests = async () => {
    const { requests } = (await control('GET', '/_requests')) as { requests: RequestRecord[] }; // Its documented form.
    return requests;
  };
  const release = async () => {
    await control('POST', '/_release');
  };
  return {
    url,
    async script(rules, models, list) {
      const given = { ...(models && { models }), ...(list && { list }) };
      await control('PUT', '/_script', { rules, ...given });
      await control('DELETE', '/_requests');
    },
    requests,
    async latest(until) {
      for (;;) {
        const record = (await requests()).at(-1);
        if (record !== undefined && until(record)) return record;
        await sleep(10);
      }
    },
    release,
    async releaseHeld() {
      while (!(await requests()).some(({ outcome }) => outcome === 'open')) await sleep(10);
      await release();
    },
    async stop(signal = 'SIGTERM') {
      child.kill(signal);
      const [code] = await exited;
      return code;
    },
  };
}

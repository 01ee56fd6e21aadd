/** A real server of S3 for tests: versitygw over a folder of its own, started as a process on a free loopback port. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { lastingPort } from '../../contract-tests/lasting-port.ts';
import { readServerSettings, type ServerSettings } from '../server-settings/server-settings.ts';

export interface TestS3 {
  /** As STORAGE_URL has it, for a bucket that is there. */
  readonly url: string;
  readonly settings: NonNullable<ServerSettings['storage']>;
  /** Where they lie. */
  readonly folder: string;
  /** Every object of the bucket, and every part that no object has come of. */
  stored(): Promise<string[]>;
  /** Takes the server away, and brings it back with what it had. */
  interrupt(): Promise<() => Promise<void>>;
  stop(): Promise<void>;
}

const program = join(import.meta.dirname, '../../.venv/bin/versitygw');
const credentials = { key: 'test-key', secret: 'test/secret+with=signs' };

/** False where `make python` has not been run. */
export const hasS3 = existsSync(program);

export async function startS3(): Promise<TestS3> {
  const folder = await mkdtemp(join(tmpdir(), 'service-s3-'));
  for (const name of ['data/bucket', 'about']) await mkdir(join(folder, name), { recursive: true });
  const port = await lastingPort();
  let server = await startGateway(folder, port);
  const url = `s3://${credentials.key}:${encodeURIComponent(credentials.secret)}@127.0.0.1:${port}/bucket/some/prefix?tls=false`;
  const { storage } = readServerSettings([], { STORAGE_URL: url, HOME: folder }).settings;
  if (!storage) throw new Error('STORAGE_URL was not read.');
  return {
    url,
    settings: storage,
    folder: join(folder, 'data/bucket'),
    async stored() {
      // Parts lie in hidden folders.
      const entries = await readdir(join(folder, 'data/bucket'), { recursive: true, withFileTypes: true });
      return entries.filter((entry) => entry.isFile()).map(({ name }) => name);
    },
    async interrupt() {
      await end(server);
      return async () => {
        server = await startGateway(folder, port);
      };
    },
    async stop() {
      await end(server);
      await rm(folder, { recursive: true });
    },
  };
}

type Gateway = ReturnType<typeof spawn>;

async function startGateway(folder: string, port: number): Promise<Gateway> {
  // What S3 keeps beside an object lies in a folder of its own: not every disk has extended attributes.
  const words = [
    '--port',
    `127.0.0.1:${port}`,
    'posix',
    '--sidecar',
    join(folder, 'about'),
    join(folder, 'data'),
  ];
  const env = { ROOT_ACCESS_KEY: credentials.key, ROOT_SECRET_KEY: credentials.secret };
  const server = spawn(program, words, { env, stdio: 'ignore' });
  for (let tries = 0; tries < 300; tries += 1) {
    if (await answers(port)) return server;
    if (server.exitCode !== null) break;
    await setTimeout(50);
  }
  await end(server);
  throw new Error('The server of S3 did not start.');
}

async function end(server: Gateway): Promise<void> {
  if (server.exitCode !== null || server.signalCode !== null) return;
  const exited = once(server, 'exit');
  server.kill('SIGKILL');
  await exited;
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    const settle = (answer: boolean) => {
      socket.destroy();
      resolve(answer);
    };
    socket.once('connect', () => settle(true)).once('error', () => settle(false));
  });
}

/** Where no image can be built: the container's own steps, as an unprivileged user, in an empty folder, from what is committed. */
import { execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chown, copyFile, mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { parse } from 'yaml';
import { type ChildProgram, startProgram } from './child-program.ts';
import { readDockerfile } from './dockerfile.ts';

const run = promisify(execFile);
const root = join(import.meta.dirname, '..');
/** `nobody` has this number on every Linux that we know. Who is not root is unprivileged already. */
const user = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : undefined;
/** The driver of SQLite has to work here, and not to be fast: to optimize it takes a minute. */
const compiledSoon = { CFLAGS: '-O0', CXXFLAGS: '-O0' };
const outputLimit = { maxBuffer: 64 * 1024 * 1024 };

const missing =
  whatIsMissing('git', 'ls-files', '--error-unmatch', 'Dockerfile') ??
  whatIsMissing('npm', 'view', 'node', 'version');

test.skipIf(missing !== null)(
  'the steps of the container install, generate and start the server as an unprivileged user',
  async () => {
    const container = readDockerfile(await readFile(join(root, 'Dockerfile'), 'utf8'));
    const folder = await mkdtemp(join(tmpdir(), 'service-container-'));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    const application = join(folder, 'app');
    const data = join(folder, 'data');
    await copyTrackedFiles(application);
    await mkdir(data, { mode: 0o700 });
    await giveAway(folder);
    const surroundings = { ...(await surroundingEnvironment()), HOME: folder };
    const building = { ...surroundings, ...compiledSoon };
    for (const step of container.steps) await runStep(step, application, building);

    const environment = {
      ...surroundings,
      ...container.environment,
      SERVICE_PORT: '0',
      SERVICE_DATA_DIR: data,
    };
    expect(container.environment).toMatchObject({ SERVICE_HOST: '0.0.0.0' });
    const server = await startProgram(container.command, {
      environment,
      directory: application,
      user,
      ready: /^service \S+ is listening on http:\/\/0\.0\.0\.0:(?<port>\d+)\n[\s\S]*^ {4}(?<token>\S{40,})$/m,
    });
    onTestFinished(async () => {
      await server.stop('SIGKILL');
    });
    await expectToServe(server);
    const [program, ...args] = container.healthCheck.map((word) => word.replaceAll('8090', portOf(server)));
    await run(program ?? '', args, { cwd: application, env: environment, ...user });
    expect(await server.stop()).toBe(0);
  },
  15 * 60_000,
);

test('the image holds every program that the server starts by itself', async () => {
  const text = await readFile(join(root, 'Dockerfile'), 'utf8');
  const packages = text.slice(text.indexOf('RUN apt-get'), text.indexOf('WORKDIR')).split(/[\s\\]+/);
  // Commands of agents, their sandbox and searches; migrations on PostgreSQL, which copy the database before.
  expect(packages).toEqual(expect.arrayContaining(['git', 'bubblewrap', 'ripgrep', 'util-linux', 'tini']));
  // Sandboxes leave processes that the first of the container has to reap.
  expect(text).toMatch(/^ENTRYPOINT \["\/usr\/bin\/tini", "--"\]$/m);
  expect(packages.find((name) => name.startsWith('postgresql-client-'))).toMatch(/\{POSTGRESQL_VERSION\}$/);
  expect(text).toMatch(/^ARG POSTGRESQL_VERSION=\d+$/m);
});

test('Docker waits for longer than the server may take to end its work', async () => {
  const { services } = parse(await readFile(join(root, 'compose.yaml'), 'utf8'));
  // SERVICE_DRAIN_SECONDS may be 25, and open streams have 5 more for their last events.
  expect(Number.parseInt(services.service.stop_grace_period, 10)).toBeGreaterThan(25 + 5);
});

/** Standard input is closed, as in a build: from a socket, bash takes itself to be a remote login. */
async function runStep(step: string, cwd: string, env: NodeJS.ProcessEnv): Promise<void> {
  const child = spawn('/bin/sh', ['-c', step], { cwd, env, ...user, stdio: ['ignore', 'pipe', 'pipe'] });
  let printed = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      printed += text;
    });
  await once(child, 'close');
  if (child.exitCode !== 0) throw new Error(`${step} ended with ${child.exitCode}:\n${printed}`);
}

async function expectToServe(server: ChildProgram): Promise<void> {
  const url = `http://127.0.0.1:${portOf(server)}`;
  for (const path of ['/health', '/ready']) expect((await fetch(url + path)).status, path).toBe(200);
  const registered = await fetch(`${url}/api/v1/auth/register`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      email: 'ada@example.com',
      password: 'correct-horse-battery',
      bootstrap_token: server.ready.groups?.token,
    }),
  });
  expect(registered.status).toBe(201);
  expect(await registered.json()).toMatchObject({ user: { operator: true } });
}

function portOf(server: ChildProgram): string {
  return server.ready.groups?.port ?? '';
}

/** The files of the commit as they stand here: what is ignored or was never added is not in the image either. */
async function copyTrackedFiles(target: string): Promise<void> {
  const { stdout } = await run('git', ['ls-files', '-z'], { cwd: root, ...outputLimit });
  for (const name of stdout.split('\0').filter(Boolean)) {
    await mkdir(dirname(join(target, name)), { recursive: true });
    await copyFile(join(root, name), join(target, name));
  }
}

async function giveAway(folder: string): Promise<void> {
  if (!user) return;
  const { stdout } = await run('find', [folder, '-print0'], outputLimit);
  for (const path of stdout.split('\0').filter(Boolean)) await chown(path, user.uid, user.gid);
}

/**
 * What the machine needs to reach the package registry, and nothing else of this process. npm's own settings may lie
 * in a file that the other user cannot read.
 */
async function surroundingEnvironment(): Promise<Record<string, string>> {
  const outside = (process.env.PATH ?? '').split(delimiter).filter((path) => !path.startsWith(root));
  const passed = /^(https?_proxy|no_proxy|NODE_EXTRA_CA_CERTS|SSL_CERT_(FILE|DIR)|LANG)$/i;
  const given = Object.entries(process.env).flatMap(([name, value]): [string, string][] =>
    passed.test(name) && value !== undefined ? [[name, value]] : [],
  );
  return { ...(await npmSettings()), ...Object.fromEntries(given), PATH: outside.join(delimiter) };
}

async function npmSettings(): Promise<Record<string, string>> {
  const settings: Record<string, string> = {};
  for (const name of ['registry', 'proxy', 'https-proxy', 'noproxy', 'cafile', 'strict-ssl']) {
    const { stdout } = await run('npm', ['config', 'get', name], { cwd: root });
    const value = stdout.trim();
    if (value !== '' && value !== 'null') settings[`npm_config_${name.replaceAll('-', '_')}`] = value;
  }
  return settings;
}

/** Null where the command works here. */
function whatIsMissing(command: string, ...args: readonly string[]): string | null {
  try {
    execFileSync(command, args, { cwd: root, stdio: 'ignore', timeout: 30_000 });
    return null;
  } catch (error) {
    return `${command}: ${error}`;
  }
}

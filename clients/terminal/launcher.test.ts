/** How the command starts: through links, from anywhere, with and without a cache of compiled code. */
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  readdirSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { launcher, type TestHome, testHome } from './test-command.ts';
import { withScriptedModel } from './test-model.ts';
import { runToEnd, startProcess } from './test-process.ts';
import { openTestTerminal } from './test-terminal.ts';

const version = { code: 0, stdout: 'service 0.1.0\n', stderr: '' };

describe('the launcher', () => {
  test('finds its checkout through links to links, relative ones too, from any folder', async () => {
    const { home, project, environment } = testHome();
    symlinkSync(join(import.meta.dirname, '../..'), join(home, 'the checkout'));
    mkdirSync(join(home, 'bin'));
    symlinkSync('../the checkout/clients/terminal/bin/service', join(home, 'bin/service'));
    symlinkSync('service', join(home, 'bin/-svc'));
    const run = (file: string, variables = {}) =>
      runToEnd(file, ['version'], { cwd: project, environment: { ...environment, ...variables } });
    expect(await run('../bin/-svc')).toEqual(version);
    expect(await run(join(home, 'bin/-svc'), { CDPATH: home })).toEqual(version);
    expect(await run('service', { PATH: `${home}/bin:${environment.PATH}` })).toEqual(version);
  });

  test('finds its checkout through a link to its package, as npm makes one', async () => {
    const { home, project, environment } = testHome();
    mkdirSync(join(home, 'node_modules/@service'), { recursive: true });
    mkdirSync(join(home, 'node_modules/.bin'));
    symlinkSync(import.meta.dirname, join(home, 'node_modules/@service/terminal'));
    symlinkSync('../@service/terminal/bin/service', join(home, 'node_modules/.bin/service'));
    const linked = join(home, 'node_modules/.bin/service');
    expect(await runToEnd(linked, ['version'], { cwd: project, environment })).toEqual(version);
  });

  test('passes every argument on as it is', async () => {
    const { home, service } = fakeCheckout("it's a checkout");
    const node = '#!/bin/sh\nfor argument; do printf "<%s>" "$argument"; done; exit 7\n';
    installNode(home, "it's a checkout", node);
    generate(home, "it's a checkout");
    const { code, stdout } = await service(['run', 'two words', '', '$HOME *', "it's"]);
    const start = join(home, "it's a checkout", 'clients/terminal/start.mjs');
    expect(stdout).toBe(`<${start}><run><two words><><$HOME *><it's>`);
    expect(code).toBe(7);
  });

  test('says what to do where nothing is installed, or nothing generated', async () => {
    const { home, service } = fakeCheckout('checkout');
    const root = join(home, 'checkout');
    expect(await service(['version'])).toEqual({
      code: 1,
      stdout: '',
      stderr: `service: its packages are not installed. Run: make -C '${root}' install\n`,
    });
    installNode(home, 'checkout', '#!/bin/sh\n');
    expect(await service(['version'])).toEqual({
      code: 1,
      stdout: '',
      stderr: `service: its code is not generated. Run: make -C '${root}' generate\n`,
    });
  });

  test('gives the command the name that it was linked by', async () => {
    const { home, project, environment } = testHome();
    symlinkSync(launcher, join(home, 'svc'));
    const { stdout } = await runToEnd(join(home, 'svc'), ['--help'], { cwd: project, environment });
    expect(stdout).toMatch(/^Usage: svc /);
    expect((await runToEnd(launcher, ['--help'], { cwd: project, environment })).stdout).toMatch(
      /^Usage: service /,
    );
    const terminal = await openTestTerminal([join(home, 'svc'), 'run', 'hello'], {
      cwd: project,
      environment,
    });
    expect((await terminal.end()).screen).toMatch(/To go on: svc run --session \w{6} "…"$/m);
  });
});

describe('the cache of compiled code', () => {
  const compiled = ({ home }: TestHome) => join(home, 'caches/service/compiled');
  const run = (home: TestHome) =>
    home.service(['version'], { variables: { XDG_CACHE_HOME: join(home.home, 'caches') } });

  test('is filled by the first start, for its owner alone', async () => {
    const home = testHome();
    expect(await run(home)).toEqual(version);
    expect(readdirSync(compiled(home))).toHaveLength(1);
    expect(statSync(compiled(home)).mode & 0o777).toBe(0o700);
    expect(statSync(join(home.home, 'caches/service')).mode & 0o777).toBe(0o700);
  });

  test('is in ~/.cache where XDG_CACHE_HOME is not set, or relative', async () => {
    const home = testHome();
    await home.service(['version'], { variables: { XDG_CACHE_HOME: 'caches' } });
    expect(readdirSync(join(home.home, '.cache/service/compiled'))).toHaveLength(1);
    expect(readdirSync(home.project)).toEqual(['.git']);
  });

  test.each<[string, (home: TestHome) => void]>([
    ['others may write there', (home) => chmodSync(compiled(home), 0o770)],
    ['others may write to the folder around it', (home) => chmodSync(join(home.home, 'caches'), 0o777)],
  ])('stays unused where %s', async (_, spoil) => {
    const home = testHome();
    mkdirSync(compiled(home), { recursive: true, mode: 0o700 });
    spoil(home);
    expect(await run(home)).toEqual(version);
    expect(readdirSync(compiled(home))).toEqual([]);
  });

  test('stays unused where a link leads to it', async () => {
    const home = testHome();
    mkdirSync(join(home.home, 'elsewhere'));
    mkdirSync(join(home.home, 'caches/service'), { recursive: true });
    symlinkSync(join(home.home, 'elsewhere'), compiled(home));
    expect(await run(home)).toEqual(version);
    expect(readdirSync(join(home.home, 'elsewhere'))).toEqual([]);
  });

  test('is not missed where it cannot be made', async () => {
    const home = testHome();
    writeFileSync(join(home.home, 'caches'), 'a file, no folder');
    expect(await run(home)).toEqual(version);
  });
});

test('service config show loads what reads the settings of people, and nothing else of the server', async () => {
  const hook = `import { registerHooks } from 'node:module';
    registerHooks({ load(url, context, next) { console.error('loads ' + url); return next(url, context); } });`;
  const options = `--import=data:text/javascript,${encodeURIComponent(hook)}`;
  const { code, stderr } = await testHome().service(['config', 'show'], {
    // From its sources: what comes with them where they are compiled, the test of the compiled programs looks at.
    variables: { NODE_OPTIONS: options, SERVICE_DEBUG: 'true' },
  });
  expect(code).toBe(0);
  const parts = [...stderr.matchAll(/^loads file:.*\/((?:server|node_modules)\/[\w.-]+)/gm)].map(
    ([, part]) => part,
  );
  expect(new Set(parts)).toEqual(
    new Set([
      ...['server/config', 'server/contract', 'server/clock.ts', 'server/git-owner.ts'],
      'server/compiled-program.mjs',
      // The locks of files name who holds them.
      ...['server/process-name.ts', 'server/process-stat.ts'],
      ...['node_modules/ajv', 'node_modules/jsonc-parser'],
    ]),
  );
});

/** The launcher in a checkout of its own, in which nothing else is yet. */
function fakeCheckout(name: string) {
  const { home, project, environment } = testHome();
  mkdirSync(join(home, name, 'clients/terminal/bin'), { recursive: true });
  const file = join(home, name, 'clients/terminal/bin/service');
  copyFileSync(launcher, file);
  return { home, service: (args: readonly string[]) => runToEnd(file, args, { cwd: project, environment }) };
}

function installNode(home: string, checkout: string, script: string): void {
  mkdirSync(join(home, checkout, 'node_modules/.bin'), { recursive: true });
  writeFileSync(join(home, checkout, 'node_modules/.bin/node'), script, { mode: 0o755 });
}

function generate(home: string, checkout: string): void {
  mkdirSync(join(home, checkout, 'server/contract'), { recursive: true });
  writeFileSync(join(home, checkout, 'server/contract/config.ts'), '');
}

test('a command that nohup began outlives the terminal', async () => {
  const home = testHome();
  const model = await withScriptedModel(home, [{ reply: { text: 'Here it is.', hold_after_chunks: 1 } }]);
  const { project: cwd, environment } = home;
  const command = startProcess('nohup', [launcher, 'run', 'go'], { cwd, environment });
  await model.latest(({ outcome }) => outcome === 'open');
  command.child.kill('SIGHUP');
  await model.releaseHeld();
  expect(await command.ended).toMatchObject({ code: 0, stdout: expect.stringContaining('Here it is.') });
});

/** What each key of a language server's settings does, with a server that notes what it is told. */
import { chmodSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { pino } from 'pino';
import { expect, test } from 'vitest';
import { isAlive, lspBench, pidsOf, smallBench, smallServer, until } from './test-lsp.ts';

const wrong = 'a.x has 1 error (small):\nerror 1:6 this wrong is wrong [small 0]';

test('`lsp` names language servers: the model is told what they find in a file that it has changed', async () => {
  const bench = smallBench('good');
  expect(await bench.note('a.x', 'this wrong\n')).toBe(wrong);
  expect(await bench.note('a.x', 'this is right\n')).toBe('');
  expect(bench.states()).toEqual(['small ready']);
  const none = lspBench(() => ({}));
  expect(await none.note('a.x', 'this wrong\n')).toBe('');
});

test('`lsp.*.command` is what is started: a name on PATH, or a path that begins in the workspace', async () => {
  const script = `#!/bin/sh\nexec ${process.execPath} ${join(import.meta.dirname, 'test-server.ts')} good\n`;
  const bench = lspBench(() => ({ lsp: { small: { command: './bin/small', filetypes: ['x'] } } }));
  chmodSync(bench.workspace.file('bin/small', script), 0o755);
  expect(await bench.note('a.x', 'this wrong\n')).toBe(wrong);
  const absent = lspBench(() => ({ lsp: { small: { command: 'no-such-server', filetypes: ['x'] } } }));
  expect(await absent.note('a.x', 'this wrong\n')).toContain('there is no program "no-such-server"');
});

test('`lsp.*.args` are its arguments, one by one and never a line for a shell', async () => {
  const bench = lspBench((notes) => {
    const entry = smallServer('good', notes);
    return { lsp: { small: { ...entry, args: [...(entry.args ?? []), '$(touch made); "x"'] } } };
  });
  await bench.note('a.x', '');
  const [started] = bench.notes();
  expect(started).toMatchObject({ arguments: ['good', bench.notesFile, '$(touch made); "x"'] });
});

test('`lsp.*.env` is added to an environment that holds nothing of this process but what programs need', async () => {
  process.env.CANARY_OF_LSP = 'a secret';
  const bench = smallBench('good', { entry: { env: { SMALL_SERVER: 'yes' } } });
  await bench.note('a.x', '').finally(() => delete process.env.CANARY_OF_LSP);
  const [started] = bench.notes();
  expect(started?.environment).toMatchObject({ SMALL_SERVER: 'yes', PATH: expect.stringContaining('/') });
  expect(Object.keys(started?.environment ?? {})).not.toContain('CANARY_OF_LSP');
});

test('the templates of an entry are replaced when its server is started, and not before', async () => {
  const asked: string[] = [];
  const bench = smallBench('good', {
    parts: {
      expand: async (value, pointer) => {
        asked.push(pointer);
        return { ...value, env: { SMALL_SERVER: 'replaced' } };
      },
    },
  });
  expect(asked).toEqual([]);
  await bench.note('a.x', '');
  expect(asked).toEqual(['/lsp/small']);
  expect(bench.notes()[0]?.environment).toMatchObject({ SMALL_SERVER: 'replaced' });
});

test.each([
  ['x', 'a.x', true],
  ['.x', 'a.x', true],
  ['*.x', 'deep/a.x', true],
  ['Smallfile', 'Smallfile', true],
  ['python', 'a.py', true],
  ['x', 'a.xx', false],
  ['x', 'x', true],
  ['y', 'a.x', false],
])('`lsp.*.filetypes` %j with %s: started %s', async (filetype, name, started) => {
  const bench = smallBench('good', { entry: { filetypes: [filetype] } });
  await bench.note(name, 'this wrong\n');
  expect(bench.notes().length > 0).toBe(started);
});

test('`lsp.*.root_markers` find the folder of the project, and without one the server is not started', async () => {
  const bench = smallBench('good', { entry: { root_markers: ['small.toml', '*.small'] } });
  await bench.note('a.x', 'this wrong\n');
  expect(bench.notes()).toEqual([]);
  bench.workspace.file('packages/one/project.small', '');
  await bench.note('packages/one/src/a.x', 'this wrong\n');
  const root = join(bench.workspace.path, 'packages/one');
  expect(bench.notes()[0]?.cwd).toBe(root);
  const initialize = bench.notes().find(({ method }) => method === 'initialize');
  expect(initialize?.params).toMatchObject({ rootUri: `file://${root}`, processId: process.pid });
});

test('`lsp.*.root_markers` above the workspace do not count', async () => {
  const bench = smallBench('good', { entry: { root_markers: ['outside'] } });
  await bench.note('a.x', 'this wrong\n');
  expect(bench.notes()).toEqual([]);
});

test('`lsp.*.init_options` are in the initialize request', async () => {
  const bench = smallBench('good', { entry: { init_options: { hover: { depth: 2 } } } });
  await bench.note('a.x', '');
  const initialize = bench.notes().find(({ method }) => method === 'initialize');
  expect(initialize?.params?.initializationOptions).toEqual({ hover: { depth: 2 } });
});

test('`lsp.*.options` are what the server is told when it asks for its settings', async () => {
  const options = { small: { rules: { strict: true } } };
  const bench = smallBench('good', { entry: { options } });
  await bench.note('a.x', '');
  await until(() => bench.notes().some(({ id, result }) => id === 1 && result !== undefined));
  const answer = bench.notes().find(({ id, result }) => id === 1 && result !== undefined);
  expect(answer?.result).toEqual([{ strict: true }, options]);
  const changed = bench.notes().find(({ method }) => method === 'workspace/didChangeConfiguration');
  expect(changed?.params).toEqual({ settings: options });
});

test('`lsp.*.timeout` bounds the start of a server that hangs, and none of its processes is left', async () => {
  const bench = smallBench('hang', { entry: { timeout: 2 } });
  const note = await bench.note('a.x', 'this wrong\n');
  expect(note).toContain('small is of no use now: it did not answer initialize within 2 s');
  expect(await bench.note('a.x', 'this is wrong\n')).toBe('');
  await expect.poll(() => pidsOf(bench).filter(isAlive)).toEqual([]);
  expect(bench.states()).toEqual(['small failed']);
});

test('`lsp.*.disabled` leaves a server out, also one that would set itself up', async () => {
  const bench = smallBench('good', { entry: { disabled: true } });
  expect(await bench.note('a.x', 'this wrong\n')).toBe('');
  expect(bench.notes()).toEqual([]);
  expect(bench.states()).toEqual(['small disabled']);
});

test('`options.auto_lsp` off and no server named: there are no tools that ask servers', async () => {
  const off = lspBench(() => ({ options: { auto_lsp: false } }));
  expect(await off.offered()).toEqual([]);
  const named = lspBench((notes) => ({
    options: { auto_lsp: false },
    lsp: { small: smallServer('good', notes) },
  }));
  expect(await named.offered()).toEqual(['diagnostics', 'references', 'definition', 'symbols']);
  expect(await lspBench(() => ({})).offered()).toHaveLength(4);
});

test('`options.disabled_tools` takes these tools away, too', async () => {
  const bench = lspBench(() => ({ options: { disabled_tools: ['references', 'symbols'] } }));
  expect(await bench.offered()).toEqual(['diagnostics', 'definition']);
});

test.each([true, false])(
  '`options.debug_lsp` %s decides whether the log shows the protocol, never settings',
  async (on) => {
    const lines: string[] = [];
    const stream = new Writable({
      write(chunk, _encoding, done) {
        lines.push(String(chunk));
        done();
      },
    });
    const bench = lspBench(
      (notes) => ({
        options: { debug_lsp: on },
        lsp: { small: smallServer('good', notes, { options: { small: { rules: 'a-secret-rule' } } }) },
      }),
      { parts: { log: pino({ level: 'info' }, stream) } },
    );
    await bench.note('a.x', 'this wrong\n');
    await until(() => bench.notes().some(({ id, result }) => id === 1 && result !== undefined));
    const log = lines.join('');
    expect(log.includes('textDocument/didOpen')).toBe(on);
    expect(log.includes('textDocument/publishDiagnostics')).toBe(on);
    // What it has answered to `initialize`.
    expect(/"direction":"received"[^}]*textDocumentSync/.test(log)).toBe(on);
    expect(log).not.toContain('a-secret-rule');
  },
);

test('a server whose settings change or go is ended at once, and comes back as the settings say', async () => {
  const bench = smallBench('child');
  await bench.note('a.x', '');
  const before = pidsOf(bench);
  expect(before.filter(isAlive)).toHaveLength(2);
  await bench.apply({ lsp: { small: smallServer('good', bench.notesFile, { env: { A: '2' } }) } });
  expect(before.filter(isAlive)).toEqual([]);
  expect(await bench.note('a.x', 'this wrong\n')).toBe(wrong);
  await bench.apply({});
  await expect.poll(() => pidsOf(bench).filter(isAlive)).toEqual([]);
  expect(await bench.note('a.x', 'this wrong, too\n')).toBe('');
});

test('settings that leave a server as it is leave it running', async () => {
  const bench = smallBench('good');
  await bench.note('a.x', '');
  await bench.apply({ lsp: { small: smallServer('good', bench.notesFile) }, options: { debug: true } });
  await bench.note('a.x', 'this wrong\n');
  expect(pidsOf(bench)).toHaveLength(1);
});

test('projects in one workspace have a server each', async () => {
  const bench = smallBench('good', { entry: { root_markers: ['small.toml'] } });
  for (const name of ['one', 'two']) {
    mkdirSync(join(bench.workspace.path, name));
    bench.workspace.file(`${name}/small.toml`, '');
    expect(await bench.note(`${name}/a.x`, 'this wrong\n')).toContain(`${name}/a.x has 1 error`);
  }
  expect(bench.states()).toEqual(['small ready', 'small ready']);
});

/** The clients of vendors are loaded when they are needed, and not before. */
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

/** The packages of vendors' clients that a program loads. */
function loadedBy(program: string): string[] {
  return printedBy(`
    import { registerHooks } from 'node:module';
    const seen = new Set();
    registerHooks({
      load(url, context, next) {
        const name = /node_modules\\/(@ai-sdk\\/[^/]+|google-auth-library)\\//.exec(url)?.[1];
        if (name) seen.add(name);
        return next(url, context);
      },
    });
    ${program}
    console.log(JSON.stringify([...seen]));`);
}

/** What a program prints, as JSON, that runs in this folder. */
function printedBy(program: string) {
  const options = { encoding: 'utf8', cwd: fileURLToPath(new URL('.', import.meta.url)) } as const; // keeps the encoding
  return JSON.parse(execFileSync(process.execPath, ['--input-type=module', '-e', program], options));
}

test('a runtime loads the client of no vendor before a model is asked', () => {
  expect(loadedBy(`await import('../runtime.ts');`)).toEqual([]);
});

test('a type loads its own client only', () => {
  const loaded = loadedBy(
    `const { factoryOf } = await import('./provider-types.ts'); await factoryOf('anthropic');`,
  );
  expect(loaded).toContain('@ai-sdk/anthropic');
  expect(loaded).not.toContain('@ai-sdk/openai');
  expect(loaded).not.toContain('google-auth-library');
});

test.each([
  ['anthropic.ts', `() => types.factoryOf('anthropic')`],
  ['genai-prices/dist/', `() => catalogue.isVendorModel('anthropic', 'claude-opus-4-5')`],
  ['dispatchers.ts', `outbound.createOutbound({ shared: () => false }).fetchFor('operator')`],
])('%s is loaded at the second call where it could not be read at the first', (file, called) => {
  const printed = printedBy(`
    import { registerHooks } from 'node:module';
    let mayFail = true;
    registerHooks({
      load(url, context, next) {
        if (!mayFail || !url.includes('${file}')) return next(url, context);
        mayFail = false;
        throw new Error('too many open files');
      },
    });
    const types = await import('./provider-types.ts');
    const catalogue = await import('./catalogue.ts');
    const outbound = await import('../../outbound/outbound.ts');
    const call = ${called};
    const isUnread = [];
    // Nothing has this address, which is refused by what was loaded.
    for (let times = 0; times < 2; times += 1)
      isUnread.push(await call('none:').then(() => false, ({ message }) => message === 'too many open files'));
    console.log(JSON.stringify(isUnread));`);
  expect(printed).toEqual([true, false]);
});

/** The clients of vendors are loaded when they are needed, and not before. */
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

/** The packages of vendors' clients that a program loads. */
function loadedBy(program: string): string[] {
  const watch = `
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
    console.log(JSON.stringify([...seen]));`;
  const options = { encoding: 'utf8', cwd: fileURLToPath(new URL('.', import.meta.url)) } as const; // keeps the encoding
  return JSON.parse(execFileSync(process.execPath, ['--input-type=module', '-e', watch], options));
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

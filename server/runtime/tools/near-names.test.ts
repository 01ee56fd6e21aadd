/** Which names are suggested for one that is not there, however many names there are. */
import { describe, expect, test } from 'vitest';
import { cpuMsOf } from '../../test-cpu.ts';
import { nearNames } from './near-names.ts';

describe('a name is suggested', () => {
  test.each([
    ['with a letter less', 'handlr.ts', 'handler.ts'],
    ['with two letters more', 'handlerss.ts', 'handler.ts'],
    ['in another case', 'READme.md', 'readme.md'],
    ['with another ending', 'config.yml', 'config.yaml'],
    ['that holds it', 'lock', 'package-lock.json'],
    ['that it holds', 'tests-of-handlers.ts', 'handlers'],
  ])('%s', (_how, wanted, name) => {
    expect(nearNames(wanted, ['elsewhere.txt', name])).toEqual([name]);
  });

  test('of five thousand, which is what a folder is read for', () => {
    const names = Array.from({ length: 5000 }, (_, at) => `component-${at}.ts`);
    expect(nearNames('componnt-4999.ts', names)[0]).toBe('component-4999.ts');
  });

  test('after more than can be compared, where only its ending is another', () => {
    const names = Array.from({ length: 5000 }, (_, at) => `${'n'.repeat(200)}${at}`);
    expect(nearNames('config.yml', [...names, 'config.yaml'])).toEqual(['config.yaml']);
    const wanted = `${'w'.repeat(200)}.ts`;
    expect(nearNames(wanted, [...names, `${wanted}x`])).toEqual([`${wanted}x`]);
  });
});

test.each([
  ['changed', 'x'.repeat(250), 'y'.repeat(250)],
  ['held by them', `b${'a'.repeat(120)}`, 'a'.repeat(250)],
  ['that hold them', 'a'.repeat(250), `b${'a'.repeat(100)}`],
])('five thousand long names are looked at in time for one that is %s', async (_how, wanted, start) => {
  const names = Array.from({ length: 5000 }, (_, at) => start.slice(5) + String(at).padStart(5, '0'));
  expect(await cpuMsOf(() => nearNames(wanted, names))).toBeLessThan(400);
});

/** What the model is told to write into commits. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../../contract-tests/upstream/start-upstream.ts';
import { converse, testFolder } from '../test-conversation.ts';

let upstream: Upstream;
beforeAll(async () => {
  upstream = await startUpstream();
});
afterAll(() => upstream.stop());

test.each([
  [undefined, 'trailer `Assisted-by: service:scripted:m-1`'],
  ['assisted-by', 'trailer `Assisted-by: service:scripted:m-1`'],
  ['co-authored-by', 'trailer `Co-Authored-By: service <service@agents.invalid>`'],
  ['none', null],
] as const)(
  '`options.attribution.trailer_style` of %s is what commits end with',
  async (trailer_style, told) => {
    const { path } = await testFolder();
    const attribution = trailer_style === undefined ? {} : { trailer_style };
    const { system } = await converse(upstream, path, { options: { attribution } });
    if (told === null) expect(system).not.toContain('trailer `');
    else expect(system).toContain(told);
  },
);

test.each([
  [undefined, true],
  [true, true],
  [false, false],
] as const)(
  '`options.attribution.generated_with` of %s decides about the line in commits, issues and pull requests',
  async (generated_with, told) => {
    const { path } = await testFolder();
    const attribution = generated_with === undefined ? {} : { generated_with };
    const { system } = await converse(upstream, path, { options: { attribution } });
    expect(system.includes('`Generated with service`')).toBe(told);
  },
);

test('an agent without a shell is told nothing of commits', async () => {
  const { path } = await testFolder();
  const { system } = await converse(upstream, path, { options: { disabled_tools: ['bash'] } });
  expect(system).not.toContain('commit');
});

/** Keys that go on working under a newer name, and the one that is for editors alone. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { formatDiagnostic } from './diagnostic.ts';
import { findPlaces } from './files/places.ts';
import { loadSettings } from './load.ts';

/** Loads a folder whose global file says this. */
async function load(text: string) {
  const home = await mkdtemp(join(tmpdir(), 'service-keys-'));
  onTestFinished(() => rm(home, { recursive: true }));
  await mkdir(join(home, 'project'));
  await writeFile(join(home, 'service.json'), text);
  const loaded = await loadSettings(
    await findPlaces(join(home, 'project'), { SERVICE_GLOBAL_CONFIG: home }, home),
  );
  return {
    options: loaded.config.options,
    told: loaded.diagnostics.map((one) => formatDiagnostic(one).replace(home, '')),
    lineOf: (pointer: string) => loaded.origin(pointer)?.place.line,
  };
}

test.each([
  [true, 'disabled'],
  [false, 'auto'],
])(
  '`options.disable_notifications` of %s works as the notification_style it means, and is warned of',
  async (old, style) => {
    const { options, told, lineOf } = await load(
      `{\n  "options": {\n    "disable_notifications": ${old}\n  }\n}`,
    );
    expect(options).toEqual({ notification_style: style });
    expect(told).toEqual([
      '/service.json:3:5: warning: /options/disable_notifications: The key "disable_notifications" is deprecated. Use notification_style: "disabled" says the same as disable_notifications: true, and "auto" the same as false.',
    ]);
    expect(lineOf('/options/notification_style')).toBe(3);
  },
);

test.each([
  [true, 'co-authored-by'],
  [false, 'none'],
])(
  '`options.attribution.co_authored_by` of %s works as the trailer_style it means, and is warned of',
  async (old, style) => {
    const { options, told, lineOf } = await load(`{"options":{"attribution":{\n"co_authored_by":${old}}}}`);
    expect(options).toEqual({ attribution: { trailer_style: style } });
    expect(told).toHaveLength(1);
    expect(told[0]).toMatch(/^\/service\.json:2:1: warning: .* is deprecated\. Use trailer_style: /);
    expect(lineOf('/options/attribution/trailer_style')).toBe(2);
  },
);

test('`options.disable_notifications` and `options.attribution.co_authored_by` have no effect beside the newer keys', async () => {
  const { options, told } = await load(
    '{"options":{"disable_notifications":true,"notification_style":"bell","attribution":{"trailer_style":"none","co_authored_by":true}}}',
  );
  expect(options).toEqual({ notification_style: 'bell', attribution: { trailer_style: 'none' } });
  expect(told).toHaveLength(2);
  for (const line of told) expect(line).toContain('has no effect beside');
});

test('`$schema` is for editors: it may name anything, and the settings are the same', async () => {
  const { options, told } = await load('{"$schema":"file:///nowhere.json","options":{"debug":true}}');
  expect(options).toEqual({ debug: true });
  expect(told).toEqual([]);
});

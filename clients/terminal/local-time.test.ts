/** Moments as people write them, in the time zone that they name. */
import { expect, test } from 'vitest';
import { momentIn } from './local-time.ts';

test.each([
  ['2027-01-31T18:00', 'America/New_York', '2027-01-31T23:00:00.000Z'],
  ['2027-01-31', 'Asia/Kolkata', '2027-01-30T18:30:00.000Z'],
  ['2027-07-01 18:00:30.5', 'Europe/Berlin', '2027-07-01T16:00:30.500Z'],
  ['2027-07-01T18:00+01:00', 'Europe/Berlin', '2027-07-01T17:00:00.000Z'],
  ['2027-07-01T18:00Z', 'Europe/Berlin', '2027-07-01T18:00:00.000Z'],
  // The clocks are put back: the first of two.
  ['2027-10-31T02:30', 'Europe/Berlin', '2027-10-31T00:30:00.000Z'],
  ['2027-11-07T01:30', 'America/New_York', '2027-11-07T05:30:00.000Z'],
  // They are put forward: as much later.
  ['2027-03-28T02:30', 'Europe/Berlin', '2027-03-28T01:30:00.000Z'],
  ['2027-03-14T02:30', 'America/New_York', '2027-03-14T07:30:00.000Z'],
  // Right before and after.
  ['2027-03-14T01:59', 'America/New_York', '2027-03-14T06:59:00.000Z'],
  ['2027-03-14T03:00', 'America/New_York', '2027-03-14T07:00:00.000Z'],
])('%s in %s is %s', (text, zone, moment) => {
  expect(momentIn('--at', text, zone)).toBe(moment);
});

test.each([
  ['2027-02-30', 'Europe/Berlin', '--at takes a day or a moment'],
  ['tomorrow', 'Europe/Berlin', '--at takes a day or a moment'],
  [
    '2027-01-31T18:00',
    'Mars/Olympus',
    '--timezone takes a zone such as Europe/Berlin, and not "Mars/Olympus".',
  ],
])('%s in %s is refused', (text, zone, message) => {
  expect(() => momentIn('--at', text, zone)).toThrow(message);
});

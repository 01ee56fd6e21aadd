import { describe, expect, test } from 'vitest';
import { readServerSettings } from './server-settings.ts';

const read = (text: string) => readServerSettings([], { HOME: '/', SERVICE_RATE_LIMITS: text });

describe('SERVICE_RATE_LIMITS', () => {
  test('names requests and seconds for each class, and the help shows them as they were written', () => {
    const { settings, help } = read('read=600/60, run=30/3600');
    expect(settings.rateLimits).toEqual({
      read: { requests: 600, seconds: 60 },
      run: { requests: 30, seconds: 3600 },
    });
    expect(help).toContain('= read=600/60, run=30/3600 (from SERVICE_RATE_LIMITS)');
  });

  test('limits nothing where it is not set', () => {
    expect(readServerSettings([], { HOME: '/' }).settings.rateLimits).toEqual({});
  });

  test.each([
    'read',
    'read=',
    'read=0/60',
    'read=5/0',
    'read=5',
    'read=5/60s',
    'all=5/60',
    'none=1/1',
    'read=1/1,read=2/2',
    'read=1/1,',
  ])('%s is refused with what to write instead', (text) => {
    expect(() => read(text)).toThrow(
      /SERVICE_RATE_LIMITS must name each of read, write, run, login at most once/,
    );
  });
});

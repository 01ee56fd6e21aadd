/** What of a URL is shown where settings are. */
import { expect, test } from 'vitest';
import { hidesSecret, withoutSecrets } from './url-secrets.ts';

test.each([
  ['https://ada:secret@example.com/mcp', 'https://(hidden)@example.com/mcp'],
  // As URLs are read: the last one counts.
  ['https://ada:se@cret@example.com/mcp', 'https://(hidden)@example.com/mcp'],
  ['https://ada:$PASSWORD@example.com/mcp', 'https://ada:$PASSWORD@example.com/mcp'],
  ['https://ada:$PASSWORD@x@example.com', 'https://(hidden)@example.com'],
  ['https://example.com/a@b?key=secret&n=1#c@d', 'https://example.com/a@b?key=(hidden)&n=(hidden)#c@d'],
])('%s is shown as %s', (url, shown) => {
  expect(withoutSecrets(url)).toBe(shown);
  expect(hidesSecret(shown)).toBe(shown.includes('(hidden)'));
});

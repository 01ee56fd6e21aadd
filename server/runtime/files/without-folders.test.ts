import { expect, test } from 'vitest';
import { withoutFolders } from './without-folders.ts';

test.each([
  ['/srv/w/ws_1/docs/a.md', 'docs/a.md'],
  ['cannot start in /srv/w/ws_1', 'cannot start in .'],
  ["ENOENT: no such file, open '/etc/service/AGENTS.md'", "ENOENT: no such file, open 'AGENTS.md'"],
  ['/home/ada/.config/service/skills/x', 'x'],
  ['see https://example.org/a/b and a/b/c', 'see https://example.org/a/b and a/b/c'],
  ['spawn /usr/local/bin/gopls: EACCES', 'spawn gopls: EACCES'],
])('%s is shown as %s', (text, shown) => {
  expect(withoutFolders(text, '/srv/w/ws_1')).toBe(shown);
});

/** Where the data of a project is. */
import { expect, test } from 'vitest';
import { dataDirectory } from './data-directory.ts';

const places = {
  workingDirectory: '/project/server',
  projectRoot: '/project',
  globalFile: '/home/.config/service/service.json',
  projectFiles: [],
  workspaceFile: '/project/.service/service.json',
  dataHome: '/home/.local/share/service',
};

test.each([
  [undefined, '/project/.service'],
  ['data', '/project/server/data'],
  ['.service', '/project/server/.service'],
  ['../data', '/project/data'],
  ['/var/data', '/var/data'],
])('`options.data_directory` %j puts the data where the reference says', (written, expected) => {
  const options = written === undefined ? {} : { data_directory: written };
  expect(dataDirectory({ places, config: { options } })).toBe(expected);
});

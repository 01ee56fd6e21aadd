/** The shortest ends of ids that tell them apart. */
import { expect, test } from 'vitest';
import { shortIds } from './session-ids.ts';

test('ids are cut to six characters where that is enough, and to as many as it takes elsewhere', () => {
  const different = ['ses_0000aaaaaa', 'ses_0000bbbbbb'];
  expect(different.map(shortIds(different))).toEqual(['aaaaaa', 'bbbbbb']);
  const alike = ['ses_0010aaaaaa', 'ses_0020aaaaaa'];
  expect(alike.map(shortIds(alike))).toEqual(['10aaaaaa', '20aaaaaa']);
});

/** The page on which somebody with a link chooses a new password. */
import { page } from './page.ts';

export const resetPage = page({
  title: 'A new password',
  otherwise: 'Without it, send the token of the link to <code>POST /api/v1/auth/password/reset</code>.',
  forms: `<form id="password" hidden>
<label>New password, at least 10 characters<input name="password" type="password" autocomplete="new-password" minlength="10" maxlength="1024" required></label>
<label>Once more<input name="again" type="password" autocomplete="new-password" minlength="10" maxlength="1024" required></label>
<button class="main">Set the password</button>
</form>`,
  // The token stands behind the # of the address, which the browser sends to nobody.
  script: `
const given = fragment.get('token');
on('password', async ({ password, again }) => {
  if (password !== again) throw new Error('The two are not the same.');
  await call('POST', '/api/v1/auth/password/reset', { token: given, password });
  show(null, 'Done: log in with the new password. You can close this page.');
});
if (given) show('password');
else show(null, 'This page needs the whole link: open it again from the mail.');
`,
});

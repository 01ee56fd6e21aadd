/** The page on which somebody accepts an invitation: as who they are already, or with a new account. */
import { type Page, type Provider, page, providerLinks } from './page.ts';

export function invitationPage(providers: readonly Provider[]): Page {
  return page({
    title: 'An invitation',
    otherwise:
      'Without it, send the token of the link to <code>POST /api/v1/auth/register</code>, or once you are logged in to <code>POST /api/v1/invitations/accept</code>.',
    forms: `<form id="register" hidden>
<p>Make your account, with the address that the invitation was sent to.</p>
<label>E-mail address<input name="email" type="email" autocomplete="username" required></label>
<label>Your name<input name="name" autocomplete="name" maxlength="200" required></label>
<label>Password, at least 10 characters<input name="password" type="password" autocomplete="new-password" minlength="10" maxlength="1024" required></label>
<button class="main">Make the account</button>
<button type="button" data-show="login">I have an account</button>
</form>
<form id="login" hidden>
<p>Log in with the address that the invitation was sent to.</p>
<label>E-mail address<input name="email" type="email" autocomplete="username" required></label>
<label>Password<input name="password" type="password" autocomplete="current-password" required></label>
<label>Code of your second factor, if you have one<input name="otp" autocomplete="one-time-code"></label>
<button class="main">Log in and accept</button>
<button type="button" data-show="register">I have no account</button>
${providerLinks(providers, '/invitation')}
</form>`,
    script,
  });
}

// A provider leads away from the page and back: this tab keeps the invitation meanwhile, and no longer.
const script = `
const kept = sessionStorage.getItem('invitation');
sessionStorage.removeItem('invitation');
const invitation = fragment.has('token') ? fragment.get('token') : kept;
const joined = async ({ organization_name, role }) => {
  await logOut();
  show(null, 'You belong to ' + organization_name + ' now, as ' + role + '. You can close this page, and log in wherever you use this server.');
};
const accept = async () => {
  try { await joined(await call('POST', '/api/v1/invitations/accept', { token: invitation })); } finally { await logOut(); }
};
on('register', async ({ email, name, password }) => {
  const pair = await call('POST', '/api/v1/auth/register', { email, name, password, invitation_token: invitation });
  token = pair.access_token;
  const me = await call('GET', '/api/v1/users/me');
  await joined(me.memberships[0]);
});
on('login', async (fields) => { await logIn(fields); await accept(); });
for (const button of document.querySelectorAll('[data-show]')) button.addEventListener('click', () => show(button.dataset.show));
for (const link of document.querySelectorAll('[data-provider]'))
  link.addEventListener('click', () => sessionStorage.setItem('invitation', invitation));
if (fragment.has('email')) for (const field of document.querySelectorAll('[name=email]')) field.setAttribute('value', fragment.get('email'));
if (!invitation) show(null, 'This page needs the whole link: open it again from the mail.');
else if (fragment.has('login_error')) show('login', refusal());
else if (!fragment.has('login_code')) show('register');
else call('POST', '/api/v1/auth/oidc/token', { login_code: fragment.get('login_code') })
  .then((pair) => { token = pair.access_token; return accept(); })
  .catch((error) => show('login', error.message));
`;

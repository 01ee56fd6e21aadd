/** The page on which somebody with a link chooses a new password. It loads nothing and talks to this server alone. */
import { createHash } from 'node:crypto';

const style = `
body { font: 16px/1.5 system-ui, sans-serif; max-width: 24rem; margin: 4rem auto; padding: 0 1rem; color-scheme: light dark }
label { display: block; margin: 1rem 0 } input, button { font: inherit; width: 100%; box-sizing: border-box; padding: .5rem }
`;

// The token stands behind the # of the address, which the browser sends to nobody; it is taken out of the history too.
const script = `
const token = new URLSearchParams(location.hash.slice(1)).get('token');
history.replaceState(null, '', location.pathname);
const form = document.querySelector('form'), said = document.querySelector('[role=status]');
if (!token) { form.hidden = true; said.textContent = 'This page needs the whole link: open it again from the mail.'; }
form.addEventListener('submit', async (event) => {
  event.preventDefault();
  const button = form.querySelector('button'), [first, second] = form.querySelectorAll('input');
  if (first.value !== second.value) { said.textContent = 'The two are not the same.'; return; }
  button.disabled = true;
  try {
    const answer = await fetch('api/v1/auth/password/reset', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ token, password: first.value }),
    });
    if (answer.ok) { form.hidden = true; said.textContent = 'Done: log in with the new password.'; return; }
    said.textContent = (await answer.json()).detail;
  } catch { said.textContent = 'The server did not answer; try again.'; }
  button.disabled = false;
});
`;

/** The page as HTML. Nothing that a caller sends stands in it. */
export const resetPage = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>A new password</title>
<style>${style}</style>
</head>
<body>
<h1>A new password</h1>
<form>
<label>New password, at least 10 characters
<input type="password" autocomplete="new-password" minlength="10" maxlength="1024" required></label>
<label>Once more
<input type="password" autocomplete="new-password" minlength="10" maxlength="1024" required></label>
<button>Set the password</button>
</form>
<p role="status"></p>
<noscript><p>Without JavaScript, send the token of the link to <code>POST /api/v1/auth/password/reset</code>.</p></noscript>
<script>${script}</script>
</body>
</html>
`;

/** Its own style and script and no other; nobody shows it in a frame. */
export const resetPagePolicy = [
  "default-src 'none'",
  `style-src '${hashOf(style)}'`,
  `script-src '${hashOf(script)}'`,
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

function hashOf(text: string): string {
  return `sha256-${createHash('sha256').update(text).digest('base64')}`;
}

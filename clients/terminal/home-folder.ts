/** The home of the person at the terminal. */
import { homedir } from 'node:os';

/** Empty where the machine knows none; it need not be an absolute path, since HOME says it. */
export function homeFolder(): string {
  try {
    return homedir();
  } catch {
    return ''; // Without HOME, a user who is in no list of users.
  }
}

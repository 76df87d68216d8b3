// Where the page starts.
import { render } from "preact";
import "./styles/colours.css";
import "./styles/base.css";
import "./styles/tables.css";
import "./styles/parts.css";
import "./styles/views.css";
import "uplot/dist/uPlot.min.css";
import { App } from "./app";
import { live } from "./state/live";
import { showTheme, storedTheme } from "./state/theme";

showTheme(storedTheme());
const root = document.getElementById("app");
if (root) {
  render(<App />, root);
  live.start();
}

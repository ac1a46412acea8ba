// SPDX-License-Identifier: Apache-2.0
import "./style.css";
import { serve } from "./serve.js";
import { start } from "./shell.js";

const root = document.getElementById("root");
const found = JSON.parse(document.getElementById("document").textContent);
if (found.schema === "stallscope.serve/1") serve(root, found);
else start(root, found);
